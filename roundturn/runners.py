"""Programs that run what they are given, and what is doubtful about a rule that lets one of them pass (P128)."""

import re

# Programs that run what they are given, or have options, files or keys that do: a rule that lets one of them pass
# lets everything pass. Versions (`python3.12`) count as their program.
RUNNER_NAMES = """
printf ldd run-parts ip rpm zip journalctl
bash sh dash ash zsh ksh mksh yash fish csh tcsh rbash busybox toybox pwsh powershell
python pypy ipython perl ruby irb node nodejs deno bun php lua luajit tclsh wish julia r rscript groovy java jshell
scala kotlin swift guile racket clojure elixir erl escript awk gawk mawk nawk original-awk m4 dc osascript
env xargs parallel sudo doas su pkexec runuser nohup time timeout nice ionice chrt taskset numactl setsid setarch
stdbuf unbuffer script expect watch entr flock chroot unshare nsenter capsh setpriv systemd-run start-stop-daemon
bwrap firejail proot fakeroot faketime strace ltrace gdb lldb valgrind perf dtrace catchsegv
exec eval source . command builtin trap enable bind complete compgen read mapfile let fc
find fd fdfind rg tar cpio dd tee gcc cc clang socat nc ncat
vi vim view vimdiff nvim ex ed emacs emacsclient nano pico micro less more most man info lynx w3m
ssh scp sftp rsync mosh telnet ftp git hg svn gh sed psql mysql sqlite
make gmake cmake ninja meson just task rake ant mvn gradle bazel tox nox pytest
npm npx pnpm yarn bunx uv uvx pip pipx poetry conda gem bundle cargo rustc go gofmt composer apt apt-get dpkg yum dnf brew
docker podman nerdctl kubectl helm terraform ansible vagrant systemctl service crontab at batch tmux screen
"""
RUNNERS = frozenset(RUNNER_NAMES.split())


def warn_about(pattern: str) -> str:
    """Why a rule that lets commands of this pattern pass lets more pass than it says, or nothing; empty: it does not."""
    name, *rest = pattern.split() or [""]
    if re.search(r"""["'\\]""", pattern):
        return f"the pattern {pattern!r} has quotes, which no word of a command has: nothing matches it; leave them out"
    if any(character in name for character in "*?"):
        return f"the pattern {pattern!r} does not say which program it lets pass"
    program = name.rpartition("/")[2].lower()  # some file systems do not tell `Python` from `python`
    if program in RUNNERS or program.rstrip("0123456789.-") in RUNNERS:
        return f"{name} runs what it is given: the pattern {pattern!r} may let any command pass"
    if any(word.startswith("-") and re.search(r"[*?]", word.partition("=")[0]) for word in rest):
        return f"the pattern {pattern!r} lets options pass that it does not name"
    return ""
