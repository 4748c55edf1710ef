"""What a shell command is, by a parser and never by its beginning: one plain command, or something a person must read (P128)."""

import functools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter
import tree_sitter_bash

from roundturn.glob import compiled
from roundturn.reading import only_reads

LANGUAGE = tree_sitter.Language(tree_sitter_bash.language())
UNPARSED = "it cannot be parsed"
# The parser's time grows with the square of what is not in quotes (`a|a|a|`: 30 s for 32,768 characters), and so
# this much is read; it is a tenth of a second at worst (decision 0018).
MOST_BARE_CHARS = 2_000
PLAIN_TEXT = re.compile(r"""(?:[\w.+\-/:=@%, ]++|'[^']*+'|"[^"$`\\!]*+")*+""", re.ASCII)
QUOTED = re.compile(r"""'[^']*+'|"[^"]*+\"""")
# Outside of quotes only characters that no shell ever treats specially; a path may be given, and `=` in an operand.
NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-/")
WORD = NAME | frozenset(":=@%,")
IN_DOUBLE_QUOTES = frozenset('$`\\!"')  # each means something there
RESERVED_WORDS = "if then else elif fi case esac for select while until do done in function time coproc"
RESERVED = frozenset(RESERVED_WORDS.split())
# What the parser calls the parts that are no plain words, as people call them.
PARTS = {
    "list": "an operator joins several commands",
    "pipeline": "a pipe joins several commands",
    "redirected_statement": "it redirects input or output",
    "file_redirect": "it redirects input or output",
    "herestring_redirect": "it redirects its input",
    "heredoc_redirect": "it redirects its input",
    "variable_assignment": "it sets a variable",
    "variable_assignments": "it sets a variable",
    "command_substitution": "it runs a command inside another",
    "process_substitution": "it runs a command inside another",
    "simple_expansion": "it has a variable",
    "expansion": "it has a variable",
    "arithmetic_expansion": "it computes a value",
    "ansi_c_string": "it has a string with escapes",
    "translated_string": "it has a translated string",
    "brace_expression": "it has braces, which expand",
    "function_definition": "it defines a function",
    "subshell": "it groups commands",
    "compound_statement": "it groups commands",
    "negated_command": "it negates a command",
    "comment": "it has a comment",
    "test_command": "it has a test of the shell",
    "declaration_command": "it declares variables",
    "unset_command": "it unsets variables",
}


@dataclass(frozen=True)
class Judgement:
    """`plain`: the words of a command that is one plain command, else None and `why`. `read_only`: it only reads."""

    plain: tuple[str, ...] | None
    read_only: bool
    why: str = ""


@functools.lru_cache(maxsize=64)  # every rule on commands asks again
def judge(command: str) -> Judgement:
    """Total, and in bounded time; whatever is not understood completely is not plain."""
    if not command.isprintable():
        return Judgement(None, False, "it has line breaks or characters that cannot be seen")
    if len(_bare(command)) > MOST_BARE_CHARS:
        return Judgement(None, False, "it is too long to be judged")
    try:
        words = tuple(_words(command))
    except NotPlain as why:
        return Judgement(None, False, str(why))
    return Judgement(words, only_reads(words))


def command_matches(pattern: str, command: str, exactly: bool = True) -> bool:
    """Whether it is one plain command, word for word as the pattern.

    `*` and `?` stand for characters of one word and never for the dash of an option; a last word `*` also stands for
    any number of operands. Case matters, as it does to programs. Without `exactly`, for rules that narrow, they stand
    for options too, case does not matter, and a program is meant wherever it lies: `rm *` is also `/bin/rm -r x`.
    """
    words = judge(command).plain
    wanted = tuple(pattern.split())
    if words is None or not wanted:
        return False
    if not exactly and "/" not in wanted[0]:
        words = (words[0].rpartition("/")[2], *words[1:])
    if wanted[-1] == "*" and len(wanted) > 1:
        rest = words[len(wanted) - 1 :]
        wanted, words = wanted[:-1], words[: len(wanted) - 1]
        if exactly and any(word.startswith("-") for word in rest):
            return False
    return len(words) == len(wanted) and all(
        _word_matches(glob, word, exactly) for glob, word in zip(wanted, words, strict=True)
    )


def _word_matches(pattern: str, word: str, exactly: bool) -> bool:
    if exactly and word.startswith("-") != pattern.startswith("-"):
        return False
    if exactly and pattern != "*" and ".." in word.split("/") and ".." not in pattern.split("/"):
        return False  # `docs/*` is what is in docs
    return compiled((pattern,), case_matters=exactly).fullmatch(word) is not None


def _bare(command: str) -> str:
    """What the parser must find its way in: all of it, or of mere words and quotes what stands outside of the quotes."""
    return QUOTED.sub("", command) if PLAIN_TEXT.fullmatch(command) else command


class NotPlain(Exception):  # noqa: N818 - the answer of the judgement, not a fault
    pass


def _words(command: str) -> Iterator[str]:
    raw = command.encode("utf-8", "surrogatepass")
    root = tree_sitter.Parser(LANGUAGE).parse(raw).root_node
    if root.has_error:
        raise NotPlain(UNPARSED)
    if root.child_count != 1 or root.children[0].type != "command":
        raise NotPlain(_why(root))
    node = root.children[0]
    _only_blanks(raw, node.end_byte, len(raw))
    _only_blanks(raw, 0, node.start_byte)
    found, end = [], node.start_byte
    for part in node.children:
        _only_blanks(raw, end, part.start_byte)
        end = part.end_byte
        found.append(_name(part) if part.type == "command_name" else _text(part))
    # A second reader must understand the same: what the two read differently, a third would read as it likes.
    if not found or found != _as_shlex(command):
        raise NotPlain(UNPARSED)
    yield from found


def _as_shlex(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        raise NotPlain(UNPARSED) from None


def _only_blanks(raw: bytes, start: int, end: int) -> None:
    if raw[start:end].strip(b" "):
        raise NotPlain(
            "an operator stands beside the command" if raw[start:end].strip(b" ;&|") == b"" else UNPARSED
        )


def _name(node: tree_sitter.Node) -> str:
    name = node.text.decode() if node.text else ""
    if node.child_count != 1 or node.children[0].type != "word" or not NAME.issuperset(name):
        raise NotPlain("its name is not written plainly")
    if name in RESERVED:
        raise NotPlain(f"{name} is a word of the shell's own")
    return name


def _text(node: tree_sitter.Node) -> str:
    text = node.text.decode() if node.text else ""
    match node.type:
        case "word" | "number":
            if not WORD.issuperset(text) or node.child_count:
                raise NotPlain(f"{text[:40]} may be expanded by the shell")
            return text
        case "raw_string":
            return text[1:-1]
        case "string":
            if any(child.is_named and child.type != "string_content" for child in node.children):
                raise NotPlain(_why(node))
            if IN_DOUBLE_QUOTES.intersection(text[1:-1]):
                raise NotPlain("it has a special character in double quotes")
            return text[1:-1]
        case "concatenation":
            end, parts = node.start_byte, []
            for child in node.children:
                if child.start_byte != end:
                    raise NotPlain(UNPARSED)
                parts.append(_text(child))
                end = child.end_byte
            return "".join(parts)
        case _:
            raise NotPlain(PARTS.get(node.type, UNPARSED))


def _why(node: tree_sitter.Node) -> str:
    """The first part that is known by name, from the outside in."""
    level = [node]
    while level:
        for each in level:
            if each.type in PARTS:
                return PARTS[each.type]
        level = [child for each in level for child in each.children][:64]
    if any(child.type in (";", "&", ";;", "\n") for child in node.children):
        return "an operator stands beside the command"
    return "it is several commands" if node.child_count > 1 else UNPARSED
