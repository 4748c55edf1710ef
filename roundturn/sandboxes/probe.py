"""Tries a sandbox before it is trusted: what a probe has not seen hidden is not hidden (X-03)."""

import os
import secrets
import socket
import subprocess
import tempfile
from pathlib import Path

from roundturn.sandbox import Command, Sandbox

LIMIT_S = 20.0
SCRIPT = """
echo began >"$1/began" || exit 1
IFS= read -r line <"$2"
[ -n "$line" ] && echo "$line" && exit 3
echo x >"$3" && exit 4
(exec 3<>"/dev/tcp/127.0.0.1/$4") && exit 5
net=$(readlink /proc/self/ns/net) && pid=$(readlink /proc/self/ns/pid) || exit 8
[ "$net" = "$5" ] && exit 5
[ "$pid" = "$6" ] && exit 6
(: >>/proc/sys/kernel/core_pattern) && exit 9
while read -r name value; do
    [ "$name$value" = NoNewPrivs:0 ] && exit 10
    [ "$name" = Seccomp: ] && [ "$value" != 2 ] && exit 11
done </proc/self/status
exit 7
"""
MEANINGS = {
    3: "it read a file of the state directory",
    4: "it wrote outside of its action directory",
    5: "it reached the network",
    9: "it could change the kernel's settings",
    6: "it saw the processes of the worker",
    10: "it could gain privileges",
    11: "its system calls were not filtered",
}
HELD = 7


def fault(sandbox: Sandbox, home: Path) -> str | None:
    """What is wrong with `sandbox`, None when it held. Runs one real command."""
    secret = secrets.token_hex(16)
    with (
        tempfile.TemporaryDirectory(prefix="probe-", dir=home) as kept,
        tempfile.TemporaryDirectory(prefix="roundturn-probe-") as work,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        canary = Path(kept) / "canary"
        canary.write_text(secret)
        outside = Path(kept) / "written"
        port = str(listener.getsockname()[1])
        spaces = (os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid"))
        words = (work, str(canary), str(outside), port, *spaces)
        command = Command(
            ("/bin/bash", "-c", SCRIPT, "probe", *words),
            Path(work),
            {"PATH": "/usr/bin:/bin"},
            hidden=(home,),
        )
        try:
            code, output = _run(sandbox.confine(command))
        except (OSError, subprocess.SubprocessError) as broken:
            return f"it did not start: {broken}"
        if secret in output or outside.exists():
            return MEANINGS[3] if secret in output else MEANINGS[4]
        if code == HELD and (Path(work) / "began").exists():
            return None
        return MEANINGS.get(code) or f"its probe ended with {code}: {output.strip()[-300:]}"


def _run(command: Command) -> tuple[int, str]:
    done = subprocess.run(
        command.argv,
        cwd=command.cwd,
        env=dict(command.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout.decode(errors="replace")
