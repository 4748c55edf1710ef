"""A command is plain or it is not: the attacks that prefixes let through, and bash itself as the judge of our reading."""

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roundturn.reading import READERS
from roundturn.shell import RUNNERS, command_matches, judge, warn_about
from tests.requirements import requirement

NOT_PLAIN = [
    # the rows of P128
    "ls; rm x", "ls $(rm x)", "ls `rm x`", "ls\nrm x", "ls > ~/.bashrc", "cat <(rm x)", "git status & rm x",
    # operators and separators
    "ls && rm x", "ls || rm x", "ls | rm x", "ls |& rm x", "ls &", "ls;", "ls ;; rm", "ls &;", "; ls", "& ls", "ls; ", "ls ; ;", "ls\r\nrm x",
    "ls\trm", "ls\x0brm", "ls\x0crm", "ls\u2028rm x", "ls\u2029rm x", "ls\u0085rm x", "ls \\\n rm", "ls a\\\nb", "\nls", "ls\n",
    # substitutions and expansions
    "ls ${x}", "ls $x", 'ls "$x"', 'ls "$(rm x)"', 'ls "`rm x`"', "ls $((1+1))", "ls $[1+1]", "ls ${x:-$(rm x)}", "ls ${x@P}", "ls $'a'", 'ls $"a"',
    "ls >(rm x)", "ls *", "ls a?", "ls [ab]", "ls {a,b}", "ls {1..9}", "ls ~", "ls ~root", "ls a=~/x", "$x", "$(rm x)", "`rm x`", "${x} a", "$@", "\"$@\"", "ls $$", "ls $!",
    "ls !x", "!ls", "!!", 'ls "!x"', "ls +(a)", "ls !(a)", "ls @(a|b)", "ls a\\ b", "l\\s", "\\ls", 'ls "a\\"b"', "ls \\$x",
    # redirects
    "ls > x", "ls >> x", "ls >| x", "ls &> x", "ls >& x", "ls 2> x", "2>x ls", "ls 2>&1", "ls < x", "ls <<< x", "ls << E\nE", "ls <<-E\nE", "ls <> x", "> x", "< x", ">x ls", "ls>x",
    "ls {fd}> x", "exec 3<>/dev/tcp/h/80",
    # assignments and declarations
    "A=1 ls", "PATH=. ls", "LD_PRELOAD=x ls", "A=1", "A+=1 ls", "a[0]=1 ls", "A=(1 2) ls", "export A=1", "declare -x A=1", "readonly A=1", "local A", "unset A",
    # groups, controls, functions, tests
    "(ls)", "{ ls; }", "if true; then rm x; fi", "for i in a; do rm x; done", "while true; do rm x; done", "until false; do rm x; done", "case a in a) rm x;; esac", "select a in b; do rm x; done",
    "f() { rm x; }", "function f { rm x; }", "! ls", "time ls", "coproc ls", "[ -f x ]", "[[ -f x ]]", "((1+1))", "let 1+1 && ls", "if", "then rm", "done", "do", "{", "}",
    # comments
    "ls # x", "# ls", "#ls", "ls #", "ls;#",
    # what is unfinished or cannot be seen
    "ls '", 'ls "', "ls `", "ls $(", "ls (", "ls )", "ls ${", "ls <<", "", " ", "\t", "ls \x00rm", "ls \x1b[31m", "ls \u202erm", "ls \u200brm", "ls \ufeffrm", "ls \u00a0rm", "ls \u3000rm", "ls\u2060",
    # look-alikes in a name
    "\u217as", "l\u0455", "\uff4c\uff53", "\u0441at x", "'ls'", '"ls"', "l's'", "''ls", "ls\u0301",
    "ls \ud800",
]  # fmt: skip

PLAIN = [
    ("ls", ("ls",)), ("  ls  -la  ", ("ls", "-la")), ("git status", ("git", "status")), ("git -c alias.status=rm status", ("git", "-c", "alias.status=rm", "status")),
    ("ls 'a b'", ("ls", "a b")), ("ls 'a;b'", ("ls", "a;b")), ("ls '$(rm x)'", ("ls", "$(rm x)")), ('ls "a b"', ("ls", "a b")), ('ls "a;b"', ("ls", "a;b")),
    ("ls 'a'\"b\"c", ("ls", "abc")), ("ls ''", ("ls", "")), ('ls ""', ("ls", "")), ("ls --color=auto", ("ls", "--color=auto")), ("/bin/ls a", ("/bin/ls", "a")),
    ("head -n 5 a.txt", ("head", "-n", "5", "a.txt")), ("ls 'caf\u00e9'", ("ls", "caf\u00e9")), ("ls a=b", ("ls", "a=b")), ("env ls", ("env", "ls")), ("lsof", ("lsof",)),
    ("sudo rm x", ("sudo", "rm", "x")), ("xargs rm", ("xargs", "rm")), ("find . -delete", ("find", ".", "-delete")), ("ls -- -x", ("ls", "--", "-x")), ("LS", ("LS",)),
    ("python3 -c 'print(1)'", ("python3", "-c", "print(1)")), ("ls .", ("ls", ".")), ("ls a,b%c@d:e", ("ls", "a,b%c@d:e")),
]  # fmt: skip


@requirement("P128")
@pytest.mark.parametrize("command", NOT_PLAIN, ids=repr)
def test_what_is_more_than_one_plain_command_is_never_taken_for_one(command: str) -> None:
    judged = judge(command)
    assert judged.plain is None, judged.plain
    assert not judged.read_only
    assert judged.why
    assert not command_matches("ls", command)
    assert not command_matches("ls *", command)


@requirement("P128")
@pytest.mark.parametrize(("command", "words"), PLAIN)
def test_a_plain_command_is_read_as_its_words(command: str, words: tuple[str, ...]) -> None:
    assert judge(command).plain == words


@requirement("P128")
@pytest.mark.parametrize(
    ("pattern", "command", "matches"),
    [
        ("ls", "ls", True), ("ls", "lsof", False), ("ls", "LS", False), ("ls", "ls a", False), ("ls *", "ls", True), ("ls *", "ls a b", True),
        ("ls *", "ls -la", False), ("ls -la *", "ls -la a", True), ("ls", "/bin/ls", False), ("ls", "./ls", False), ("git status", "git status", True),
        ("git status", "git -c alias.status=!rm status", False), ("git status", "git  'status'", True), ("git status", "git statusx", False), ("git *", "git status", True),
        ("git *", "git -c a=b status", False), ("git * ", "git push", True), ("git log", "git log --output=x", False), ("git log *", "git log --output=x", False),
        ("git log --oneline *", "git log --oneline a", True), ("cat *.txt", "cat a.txt", True), ("cat *.txt", "cat -n.txt", False), ("cat -*", "cat -n", True),
        ("ls", "env ls", False), ("ls", "sudo ls", False), ("env ls", "env ls", True), ("", "ls", False), ("*", "ls", True), ("*", "ls a", False), ("l?", "ls", True),
        ("ls a b", "ls a", False), ("ls [a]", "ls 'b'", False), ("git status", "git status; rm x", False), ("git status", "git status\nrm x", False),
    ],
)  # fmt: skip
def test_a_pattern_matches_word_for_word(pattern: str, command: str, matches: bool) -> None:
    assert command_matches(pattern, command) == matches


READS = [
    "ls", "ls -la src", "cat a b", "head -n 5 a", "head -n5 a", "tail -c 10 a", "wc -l a", "grep -rn 'a b' src", "grep -e x -A3 a", "grep --include=x y", "pwd", "stat a", "du -sh .", "du -d1 .",
    "sort -k2 a", "uniq a", "uniq -c a", "cut -d: -f1 a", "diff -u a b", "date +%F", "date -u", "whoami", "id", "uname -a", "echo a", "true", "false", "realpath a", "ls -- -x", "sort --key=2 a",
]  # fmt: skip
WRITES = [
    "rm x", "tail -f a", "sort -o x a", "sort a -o x", "sort -nox a", "sort --output=x a", "sort --compress-program=sh a", "sort --files0-from=x", "uniq a b", "date -s now", "date --set=now",
    "date 010100002030", "hostname x", "git status", "git log", "git diff --output=x", "find .", "find . -delete", "find . -exec rm x", "env", "env ls", "xargs rm", "sudo ls", "command ls",
    "exec ls", "eval ls", "nohup ls", "timeout 1 ls", "nice ls", "tee x", "dd if=a", "sed p a", "awk 1 a", "python3 x", "bash x", "sh x", "perl x", "node x", "tar -tf x", "less a", "man a", "vi a",
    "ssh h ls", "rsync a b", "make", "ed a", "cp a b", "mv a b", "ln a b", "touch a", "mkdir a", "chmod 1 a", "ls --unknown", "ls --rec", "cat -Z a", "wc --files0-from=x", "du --files0-from=x",
    "grep -f x y", "grep -P x y", "rg --pre sh x", "diff a b c", "/bin/ls", "./ls", "../ls", "LS", "lsof", "printenv", "ps", "kill 1", "curl x", "wget x", "tree -o x", "split a", "install a b",
    "truncate a", "printf a", "source a", ". a", "trap a", "test -f a",
]  # fmt: skip


@requirement("P128", "T-04")
@pytest.mark.parametrize("command", READS)
def test_a_program_that_only_reads_with_its_harmless_options_reads(command: str) -> None:
    assert judge(command).read_only


@requirement("P128", "T-05")
@pytest.mark.parametrize("command", WRITES)
def test_any_other_program_or_option_does_not_only_read(command: str) -> None:
    assert not judge(command).read_only


def test_no_program_both_runs_others_and_only_reads() -> None:
    assert not RUNNERS & READERS.keys()


@requirement("P128")
@pytest.mark.parametrize(
    ("pattern", "warned"),
    [("git status", True), ("ls *", False), ("python3 *", True), ("/usr/bin/env ls", True), ("*", True), ("l?", True), ("xargs rm", True), ("", False)],
)  # fmt: skip
def test_a_pattern_that_lets_more_pass_than_it_says_is_warned_about(pattern: str, warned: bool) -> None:
    assert bool(warn_about(pattern)) == warned


text = st.text(max_size=60) | st.text("ls rm\"'\\$`(){}[]<>|&;#!*?~=\n\t -0a", max_size=40)


@requirement("P128")
@given(text)
def test_every_text_gets_a_judgement(command: str) -> None:
    judged = judge(command)
    assert (judged.plain is None) == bool(judged.why)
    assert not (judged.read_only and judged.plain is None)


@pytest.mark.parametrize(
    "piece", ["(", "'", '"', "`", "$(", "{", "[[", "if ", "<<a ", "a ", "\\", "((", "a=", "'a' ", "! "]
)
def test_the_longest_command_is_judged_at_once(piece: str) -> None:
    began = time.monotonic()
    judge((piece * 32_768)[:32_768])
    assert time.monotonic() - began < 5, "a fraction of a second on a quiet machine"


plain_words = st.text("ab01_.,:=@%+/-", min_size=1, max_size=6)
single = (
    st.text(st.characters(codec="utf-8", exclude_characters="'"), max_size=6)
    .filter(str.isprintable)
    .map(lambda t: f"'{t}'")
)
double = st.text("ab ;&|<>(){}[]*?~#'=", max_size=6).map(lambda t: f'"{t}"')
argument = st.lists(plain_words | single | double, min_size=1, max_size=3).map("".join)
commands = st.lists(argument, max_size=4).map(lambda arguments: " ".join(["ls", *arguments]))


@requirement("P128")
@given(
    commands,
    st.sampled_from(
        [
            "; rm x",
            " && rm x",
            " | rm x",
            " > x",
            " $(rm x)",
            " `rm x`",
            "\nrm x",
            " &",
            " <(rm x)",
            " # x",
            " *",
            " ~",
            " {a,b}",
            " \\x",
        ]
    ),
)
def test_nothing_can_be_added_to_a_plain_command_unseen(command: str, added: str) -> None:
    assert judge(command + added).plain is None


@requirement("P128")
@settings(max_examples=12)
@given(st.lists(commands | text.filter(lambda t: "\x00" not in t), min_size=20, max_size=20))
@example(
    [
        "ls a'b'\"c\"",
        "ls ''",
        'ls "" a',
        "ls a=b",
        "ls 'é ü'",
        "ls -n",
        "ls 1 02 0x3",
        "ls a@b",
        "ls %s",
        "ls a+b",
        "ls ./-/x",
        "ls , :",
    ]
)
def test_bash_itself_reads_a_plain_command_as_the_same_words(
    tmp_path_factory: pytest.TempPathFactory, given_: list[str]
) -> None:
    where = tmp_path_factory.mktemp("bash")
    for name in ("a", "b", "ab", "0", "-n"):
        (where / name).touch()
    judged = [(command, judge(command).plain) for command in given_]
    plain = [(command, words) for command, words in judged if words is not None]
    assert _as_bash_reads(where, [command for command, _ in plain]) == [list(words) for _, words in plain]


def _as_bash_reads(where: Path, commands: list[str]) -> list[list[str]]:
    """Each in the place of its words: nothing of it is run, since `set` takes them all."""
    script = "".join(f'set -- {command}\nprintf \'%s\\0\' "$#" "$@"\n' for command in commands)
    ran = subprocess.run(["/bin/bash", "-c", script], cwd=where, capture_output=True, check=True, timeout=30)
    fields = iter(ran.stdout.decode().split("\0")[:-1])
    return [[next(fields) for _ in range(int(count))] for count in fields]
