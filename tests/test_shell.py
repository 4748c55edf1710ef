"""A command is plain or it is not: the attacks that prefixes let through, and bash itself as the judge of our reading."""

import random
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roundturn.reading import READERS, Reader
from roundturn.runners import RUNNERS, warn_about
from roundturn.shell import MOST_BARE_CHARS, command_matches, judge
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
    # words that only some shells or some places read as they stand
    "ls ^a", "git show HEAD~1", "git show HEAD@{1}", "ls a~", "ls =ls?", "ls a:~/b", "ls 'a'~", "ls 'a'*", "ls \"a\"?", "ls a'b'{c,d}", "ls ''*", "ls a'\n'b", "ls 'a\tb'",
    "ls 'a' > 'b'", "ls 'a'>b", "ls 'a';rm x", "ls 'a'|rm x", "ls 'a'&", "ls 'a'$(rm x)", "ls 'a'`rm x`", "ls 'a''b", "ls \"a\"\"b", "ls 'a'\\''b'", 'ls "a\\b"', "ls 'a'#b;c", "ls a#b",
    # words of the shell where a program's name stands
    "typeset A=1", "declare A", "time -p ls", "coproc x ls", "function f", "select x", "if ls", "elif ls", "while ls", "case x", "for x", "in x", "esac", "fi", "else ls", "[ a ]", "[[ a ]]",
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
    assert not command_matches("ls *", command, exactly=False)


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


@requirement("P128")
@pytest.mark.parametrize(
    ("pattern", "command", "matches"),
    [
        ("rm *", "rm -rf x", True), ("rm *", "/bin/rm x", True), ("rm *", "RM x", True), ("rm", "./rm", True), ("rm *", "rm", True), ("git push *", "git  'push' --force", True), ("git p*", "git push", True),
        ("git push", "git push x", False), ("rm *", "rmdir x", False), ("/bin/rm *", "rm x", False), ("/bin/rm *", "/bin/rm -r x", True), ("rm *", "env rm x", False), ("rm ?r", "rm -r", True),
        ("rm *", "ls; rm x", False),
    ],
)  # fmt: skip
def test_for_a_rule_that_narrows_a_star_is_an_option_too_and_a_program_lies_anywhere(
    pattern: str, command: str, matches: bool
) -> None:
    assert command_matches(pattern, command, exactly=False) == matches


READS = [
    "ls", "ls -la src", "cat a b", "head -n 5 a", "head -n5 a", "tail -c 10 a", "wc -l a", "grep -rn 'a b' src", "grep -e x -A3 a", "grep --include=x y", "pwd", "stat a", "du -sh .", "du -d1 .",
    "sort -k2 a", "uniq a", "uniq -c a", "cut -d: -f1 a", "diff -u a b", "date +%F", "date -u", "whoami", "id", "uname -a", "echo a", "true", "false", "realpath a", "ls -- -x", "sort --key=2 a",
    "head -5 a", "head -n -5 a", "cut -f-3 a", "test -f a", "test a = b", "test -n ''", "cat /dev/null", "cat dev/x", "cat /home/dev/x", "ls ../a", "cat sys", "grep -rn -C3 x .",
    "cat -- -n", "sort -- a", "stat -c %s a", "echo a b", "uniq - ", "basename a/b", "dirname a/b", "readlink -f a", "sha256sum a", "wc -c a b", "uname", "id -u", "tr a b", "cmp a b", "nl a", "df -h .",
]  # fmt: skip
WRITES = [
    "rm x", "tail -f a", "sort -o x a", "sort a -o x", "sort -nox a", "sort --output=x a", "sort --compress-program=sh a", "sort --files0-from=x", "uniq a b", "date -s now", "date --set=now",
    "date 010100002030", "hostname x", "git status", "git log", "git diff --output=x", "find .", "find . -delete", "find . -exec rm x", "env", "env ls", "xargs rm", "sudo ls", "command ls",
    "exec ls", "eval ls", "nohup ls", "timeout 1 ls", "nice ls", "tee x", "dd if=a", "sed p a", "awk 1 a", "python3 x", "bash x", "sh x", "perl x", "node x", "tar -tf x", "less a", "man a", "vi a",
    "ssh h ls", "rsync a b", "make", "ed a", "cp a b", "mv a b", "ln a b", "touch a", "mkdir a", "chmod 1 a", "ls --unknown", "ls --rec", "cat -Z a", "wc --files0-from=x", "du --files0-from=x",
    "grep -f x y", "grep -P x y", "rg --pre sh x", "diff a b c", "/bin/ls", "./ls", "../ls", "LS", "lsof", "printenv", "ps", "kill 1", "curl x", "wget x", "tree -o x", "split a", "install a b",
    "truncate a", "printf a", "source a", ". a", "trap a",
    # devices, and what the kernel shows as files
    "cat /dev/sda", "cat //dev/sda", "cat /./dev/sda", "cat ../../dev/sda", "cat x/../../dev/sda", "cat /x/../dev/sda", "cat /DEV/sda", "head -c 1 /dev/watchdog", "tail /dev/zero", "cat /proc/kmsg",
    "cat /proc/self/environ", "grep x /proc/1/environ", "cat -- /dev/sda", "stat /sys/x", "diff a /dev/tty", "ls /dev", "wc '/dev/zero'", "cat /de'v/zero'",
    # options on no list, joined to one that is, in another place, or shortened
    "test -v 'a[$(rm x)]'", "test -- -o -v 'a[$(rm x)]'", "test -- -a -v 'a[$(rm x)]'", "head -5c /dev/zero", "tail -5c /proc/self/environ", "grep --include -- -f a b", "sort --key -- -o x a", "test a -o -v 'a[$(rm x)]'", "test -R a", "test -t 0", "tail -F a", "tail -fn5 a", "tail -5f a", "tail --follow a",
    "tail --pid=1 a", "sort -ro x a", "sort -ox a", "sort --out=x a", "sort -k -o x a", "sort -t -o x a", "sort -T . a", "sort -S 1G a", "sort --random-source=a b", "cat a --x", "diff -l a b", "diff --paginate a b",
    "grep -f a b", "grep -z a b", "grep --file=a b", "grep -e -f b", "ls --color", "ls -w 5", "date -f a", "date -r a", "date -d now", "date --date=now", "date a", "date +%F 0101", "date -su", "uniq -c a b", "uniq -- a b",
    "du -X a", "du --exclude-from=a", "df --output", "df --sync", "stat --printf=a b", "head --zero a", "id a b", "uname a", "pwd a", "whoami a", "cut --output-delimiter=a b", "diff --to-file=a b",
    # a repository's own settings make git run programs, whatever is asked of it
    "git show", "git show --textconv x", "git log --show-signature", "git log --output=x", "git -c core.pager=x log", "git -C x status", "git --exec-path=x status", "git grep -Ox a", "git diff --ext-diff", "git rev-parse",
    "git branch", "git blame a", "git ls-files", "git --version",
    "rg a", "fd a", "find . -name a", "find . -fprint x", "find . -ok rm x", "sed -n 1p a", "sed 1ex a", "sed 'w x' a", "awk 'BEGIN{system(1)}'", "tar --to-command=x -xf a", "tar --checkpoint-action=exec=x a",
    "rsync -e x a b", "less +x a", "man -P x a", "vi -c x a", "ed x", "tree", "hostname", "watch ls", "time", "busybox ls", "doas ls", "builtin echo a", "type ls", "which ls", "jq . a", "curl -o x y", "xxd a b",
    "mktemp", "tac a", "yes", "sleep 1", "read a", "set -x", "cd x", "exit", "umask 0", "ulimit -c 1", "alias ls=rm", "hash -p x ls", "enable -f x y", "mapfile a", "wait", "jobs", "history -c", "pushd a", "shopt -s x",
    "nslookup x", "dig x", "ping x", "host x", "strings a", "od a", "comm a b", "join a b", "paste a b", "tee", "pr a", "md5sum a", "gzip -l a", "zcat a", "base64 a", "bc a", "expr 1", "seq 1", "env A=1", "printenv A",
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
    [("git status", True), ("ls *", False), ("python3 *", True), ("/usr/bin/env ls", True), ("*", True), ("l?", True), ("xargs rm", True), ("", False),
     ("python3.12 x", True), ("/opt/Python3.12 x", True), ("perl5.36.0 *", True), (". x", True), ("find *", True), ("sudo", True), ("let *", True), ("sort -* a", True), ("ls --* a", True), ("ls --format=* a", False),
     ("cat a *", False), ("7z x", False), ("lsof *", False), ('echo "a b"', True), ("echo '*'", True), ("echo a\\b", True)],
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


@requirement("P128")
@pytest.mark.parametrize(
    "piece",
    ["(", "'", '"', "`", "$(", "{", "[[", "if ", "<<a ", "a ", "\\", "((", "a=", "'a' ", "! ", "a|", "a=(", "[[ (", "1@", "=~ == ", "case x in (",
     "${a", "''", '""', "''\"\"", "'a'1@", "ls 'a'\"b\"c", "\U0001f600", "'\U0001f600'", "a;", "&&", "<("],
)  # fmt: skip
def test_a_command_of_any_length_is_judged_at_once(piece: str) -> None:
    """The parser alone takes half a minute for some of these."""
    for length in (MOST_BARE_CHARS, 32_768):
        command = (piece * length)[:length]
        began = time.process_time()
        judge.__wrapped__(command)
        assert time.process_time() - began < 1, "a twentieth of it on a quiet machine"


@requirement("P128")
def test_a_usual_command_is_judged_in_a_moment() -> None:
    def once() -> float:
        began = time.process_time()
        for _ in range(100):
            judge.__wrapped__("git commit -m 'a b' \"c d\"")
        return (time.process_time() - began) / 100

    assert min(once() for _ in range(5)) < 0.001  # 0.1 ms on a quiet machine


@requirement("P128")
def test_a_long_text_in_quotes_leaves_a_command_plain_and_a_long_row_of_words_does_not() -> None:
    text = "a;b " * 8_000
    assert judge(f"git commit -m '{text}'").plain == ("git", "commit", "-m", text)
    assert judge("ls " + "a" * MOST_BARE_CHARS).why == "it is too long to be judged"


plain_words = st.text("ab01_.,:=@%+/-", min_size=1, max_size=6)
UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")
single = st.text(
    st.characters(codec="utf-8", exclude_characters="'", exclude_categories=UNSEEN), max_size=6
).map(lambda t: f"'{t}'")
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
@given(st.lists(commands | text, min_size=20, max_size=20))
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


PIECES = [*"ab01_.,:=@%+/-~^!#*?[]{}()<>|&;$`'\"\\ \t", "'a b'", '"a b"', "''", '""', "'\"'", '"\'"', "-n", "--", "==", "=~", "a=b", "time", "if", "in", "é", "漢",
          "'é ü'", "$'a'", "\\ ", "'$x'", "'`x`'", "';'", "'#'", "let", "export", "~a", "a~", "+=", " a", " 'b'", " -c", "test", "[", "[[", "''a", "a''", "{a,b}"]  # fmt: skip
NAMES = ("ls", "git", "x-y.z")


@requirement("P128")
@pytest.mark.parametrize("seed", range(4))
def test_bash_runs_a_plain_command_with_the_very_words(tmp_path: Path, seed: int) -> None:
    """Out of thousands of texts made of what is special to a shell, each that passes for plain is given to bash as it stands."""
    chance = random.Random(seed)
    texts = {
        chance.choice(NAMES) + "".join(chance.choice(("", " ")) + chance.choice(PIECES) for _ in range(chance.randint(0, 6)))
        for _ in range(5_000)
    }  # fmt: skip
    judged = [(text, words) for text in sorted(texts) if (words := judge(text).plain) and words[0] in NAMES]
    assert len(judged) > 200
    for name in ("a", "b", "ab", "0", "-n"):
        (tmp_path / name).touch()
    said = "".join(f"{name}() {{ printf '%s\\0' $(($# + 1)) {name} \"$@\"; }}\n" for name in NAMES)
    ran = _bash(said + "\n".join(text for text, _ in judged), tmp_path)
    assert _counted(ran.stdout) == [list(words) for _, words in judged]
    assert ran.stderr == b""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["-n", "0", "a", "ab", "b"]


def _bash(script: str, where: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["/bin/bash", "-c", script], cwd=where, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    )  # fmt: skip


def _counted(output: bytes) -> list[list[str]]:
    fields = iter(output.decode().split("\0")[:-1])
    return [[next(fields) for _ in range(int(count))] for count in fields]


@requirement("P128", "T-05")
@pytest.mark.parametrize("name", sorted(READERS))
def test_no_option_on_its_list_makes_a_program_write(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    for file in ("a", "b", "folder/c"):
        (tmp_path / file).write_text("2\n1\n")
    before = _seen(tmp_path)
    commands = [
        command for words in _every_option(READERS[name]) if judge(command := f"{name} {words}").read_only
    ]
    assert len(commands) > 1 or name in ("true", "false", "pwd", "whoami", "uname")
    _bash("\n".join(commands), tmp_path)
    assert _seen(tmp_path) == before


def _every_option(reader: Reader) -> list[str]:
    options = [
        "",
        *(f"-{flag}" for flag in reader.flags),
        *(f"-{option} 1" for option in reader.valued),
        *(f"-{option}1" for option in reader.valued),
        *(f"{option}{value}" for option in sorted(reader.long) for value in ("", "=1")),
    ]
    operands = (f"{reader.operand_begins}a", "a b", "a b folder", "-- a b", "")
    return [f"{option} {operand}" for option in options for operand in operands]


def _seen(where: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        path.relative_to(where).as_posix(): (
            path.stat().st_mode,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in where.rglob("*")
    }
