"""The contracts in `roundturn` are passed through the workflow sandbox: they must give the same answer on every replay."""

import ast
from collections.abc import Iterator

from tests.architecture.source import Module, called, product

# Modules that read the outside, and why the sandbox may see them all the same: nothing there runs in a workflow.
READ_THE_OUTSIDE = {
    "roundturn/settings.py": "reads the environment and the configuration files, once, for worker and gateway",
    "roundturn/telemetry.py": "sets up logging, once a process",
}
HARMLESS = {"urllib.parse"}  # takes addresses apart, opens none
CACHES = {
    "roundturn/glob.py": "compiled globs: a bounded cache of a pure function",
    "roundturn/shell.py": "commands that were judged: a bounded cache of a pure function",
}

IMPURE_MODULES = {
    "os", "sys", "io", "time", "random", "secrets", "uuid", "socket", "ssl", "subprocess", "threading", "tempfile",
    "shutil", "logging", "signal", "multiprocessing", "urllib", "http", "httpx2", "sqlite3", "structlog",
}  # fmt: skip
IMPURE_CALLS = {
    "open", "input", "print", "now", "utcnow", "today", "getenv", "cwd", "home", "exists", "is_file", "is_dir", "iterdir",
    "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink", "stat", "resolve", "absolute", "expanduser",
    "rglob", "glob", "touch", "rename", "get_event_loop", "get_running_loop", "create_task", "sleep",
}  # fmt: skip

PURE = [m for m in product() if m.is_pure_root and m.path not in READ_THE_OUTSIDE]


def test_a_contract_uses_no_clock_no_randomness_no_files_and_no_network() -> None:
    imports = [
        f"{m.at(line)} {name}"
        for m in PURE
        for name, line in m.imports()
        if name.split(".")[0] in IMPURE_MODULES and name.rsplit(".", 1)[0] not in HARMLESS
    ]
    calls = [
        f"{m.at(call)} {called(call)}" for m in PURE for call in m.calls() if called(call) in IMPURE_CALLS
    ]
    assert imports + calls == []


def test_a_contract_has_no_state_of_its_own() -> None:
    caches = [place for m in PURE if m.path not in CACHES for place in _caches(m)]
    assert caches + [place for m in PURE for place in (*_changed(m), *_variables(m))] == []


def test_a_workflow_module_keeps_nothing_between_runs() -> None:
    modules = [m for m in product() if m.path.startswith("workflows/")]
    assert [place for m in modules for place in (*_changed(m), *_caches(m), *_variables(m))] == []


def test_every_exemption_is_for_a_module_that_is_there() -> None:
    assert {*READ_THE_OUTSIDE, *CACHES} <= {m.path for m in product()}


def _changed(module: Module) -> Iterator[str]:
    yield from (
        module.at(node) for node in ast.walk(module.tree) if isinstance(node, ast.Global | ast.Nonlocal)
    )


def _caches(module: Module) -> Iterator[str]:
    for function in module.functions():
        for decorator in function.decorator_list:
            if (
                "cache" in ast.unparse(decorator) and ast.unparse(decorator) != "cached_property"
            ):  # of one frozen object
                yield module.at(function)


def _variables(module: Module) -> Iterator[str]:
    """Names of a module are constants, types or `T`; a lower-case one is a variable that workflows would share."""
    for node in module.tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        for target in targets:
            if isinstance(target, ast.Name) and not target.id.startswith("__") and target.id[:1].islower():
                yield f"{module.at(node)} {target.id}"
