"""What is doubtful about rules: those that let more pass than they say, and those that nothing fits (P97, P128)."""

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence

from roundturn.glob import matches
from roundturn.rules import ENTRIES, LOOSENING, Layer, Match, Rule, When
from roundturn.runners import warn_about
from roundturn.spelling import path_doubt, url_doubt
from roundturn.tool import BY_NAME, ToolSpec


def doubts(layer: Layer, specs: Sequence[ToolSpec], agents: Iterable[str] = ()) -> Iterator[str]:
    """In a line each. `specs` and `agents`: all that are known; a worker with more of them knows better."""
    known = tuple(agents)
    for rule in layer.rules:
        for doubt in _about(rule, specs, known):
            yield f"rule {rule.id} of the {layer.name} layer: {doubt}"


def idle_globs(globs: Iterable[str], names: Sequence[str]) -> Iterator[str]:
    """The globs that fit no name, with the names that may have been meant."""
    for glob in globs:
        if not any(matches((glob,), name) for name in names):
            near = difflib.get_close_matches(glob.casefold(), names, 3, 0.6)
            yield repr(glob) + (f" (did you mean {', '.join(near)}?)" if near else "")


def _about(rule: Rule, specs: Sequence[ToolSpec], agents: tuple[str, ...]) -> Iterator[str]:
    fitting = [spec for spec in specs if rule.match.fits_tool(spec)]
    if not fitting:
        named = ", ".join(idle_globs(rule.match.name, [spec.name for spec in specs]))
        yield f"no tool that is known here fits it{f': {named}' if named else ''}"
    for match in (rule.match, rule.except_):
        if match is not None and fitting:
            yield from _argument(match, fitting)
    argument = rule.match.argument
    if argument is not None and argument.glob is not None:
        kinds = {spec.argument_kinds.get(argument.name) for spec in fitting}
        if "path" in kinds and (warning := path_doubt(argument.glob)):
            yield warning
        if rule.effect in LOOSENING:
            yield from _too_wide(argument.glob, kinds)
    if fitting and all(spec.name == BY_NAME for spec in fitting):
        yield f"rules see the tool that {BY_NAME} is called for, and never the entry; name that tool"
    yield from _nowhere(rule.when, agents)


def _argument(match: Match, specs: Sequence[ToolSpec]) -> Iterator[str]:
    if match.argument is None:
        return
    wanted = match.argument.name.partition(".")[0]
    names = sorted({name for spec in specs for name in spec.input_schema.get("properties", ())})
    if names and wanted not in names:
        near = difflib.get_close_matches(wanted, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names[:10])}"
        yield f"no tool that it fits has an argument {wanted!r}; {hint}"


def _too_wide(glob: str, kinds: Collection[str | None]) -> Iterator[str]:
    if "command" in kinds and (warning := warn_about(glob)):
        yield warning
    if "url" in kinds and (warning := url_doubt(glob)):
        yield warning


def _nowhere(when: When, agents: tuple[str, ...]) -> Iterator[str]:
    if agents:
        for glob in idle_globs(when.agent, agents):
            yield f"no agent is named {glob}"
    for glob in idle_globs(when.entry, ENTRIES):
        yield f"no entry is called {glob}; there are {', '.join(ENTRIES)}"
