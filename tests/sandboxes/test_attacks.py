"""What a hostile command tries against the real bubblewrap; a canary tells whether it got anywhere."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from roundturn.sandboxes.bwrap import Bubblewrap
from roundturn.sandboxes.probe import fault
from roundturn.tool import ToolContext
from roundturn.tools.shell import Bash, BashInput
from tests.requirements import requirement

SECRET = "canary-7f3a91"
OPEN = "came-in"


@dataclass
class Scene:
    """An action directory with the state directory inside it, a user's home beside it, and listeners."""

    action: Path
    state: Path
    elsewhere: Path
    port: int
    victim: subprocess.Popen[bytes]
    listeners: tuple[socket.socket, ...]

    def fill(self, command: str) -> str:
        words = {
            "STATE": self.state, "ELSE": self.elsewhere, "PORT": self.port, "PID": self.victim.pid, "ME": os.getpid(),
            "NAME": f"roundturn-{self.port}",
        }  # fmt: skip
        for word, value in words.items():
            command = command.replace(f"@{word}", str(value))
        return command

    async def run(self, command: str) -> str:
        bash = Bash(Bubblewrap(Path(shutil.which("bwrap") or ""), self.state))
        assert bash.spec().approval != "always"
        context = ToolContext(self.action, f"call-{self.port}", (self.state,))
        return (await bash.execute(BashInput(command=self.fill(command), timeout_s=20), context)).output

    def reached(self) -> bool:
        for listener in self.listeners:
            try:
                listener.accept()[0].close()
                return True
            except BlockingIOError:
                continue
        return False


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed")
    action, elsewhere = tmp_path / "action", tmp_path / "person"
    state = action / ".roundturn"
    for folder in (state, elsewhere / ".aws"):
        folder.mkdir(parents=True)
    (state / "secret").write_text(SECRET)
    (elsewhere / ".aws" / "credentials").write_text(SECRET)
    if (wrong := fault(Bubblewrap(Path(program), state), state)) is not None:
        pytest.skip(f"bubblewrap does not hold on this machine: {wrong}")
    tcp = socket.create_server(("127.0.0.1", 0))
    port = tcp.getsockname()[1]
    abstract, plain = (socket.socket(socket.AF_UNIX) for _ in range(2))
    abstract.bind(f"\0roundturn-{port}")
    before = Path.cwd()
    os.chdir(state)  # the path of a socket is short
    plain.bind("socket")
    os.chdir(before)
    listeners = (tcp, abstract, plain)
    for listener in listeners:
        listener.listen()
        listener.setblocking(False)
    victim = subprocess.Popen(
        ["/bin/sleep", "300"], env={"SECRET": SECRET, "PATH": os.defpath}, stdout=subprocess.DEVNULL
    )
    yield Scene(action, state, elsewhere, port, victim, listeners)
    victim.kill()
    victim.wait()
    for listener in listeners:
        listener.close()


PY = "/usr/bin/python3 -c"
UNIX = f"{PY} 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1].replace(\"@@\", chr(0)))'"
ATTACKS = (
    # reads
    "cat @STATE/secret",
    "cat .roundturn/secret",
    "ls -la .roundturn; cat .roundturn/*",
    "ln -s @STATE/secret link; cat link",
    "ln @STATE/secret hard; cat hard",
    "chmod 777 .roundturn; cat .roundturn/secret",
    "cp -r @STATE copy; cat copy/secret",
    "tar c .roundturn | cat",
    "mv .roundturn gone; cat gone/secret",
    "rmdir .roundturn; cat .roundturn/secret",
    "mkdir in; cd in; cat ../.roundturn/secret",
    "cat /proc/self/cwd/.roundturn/secret",
    "cat /proc/self/root@STATE/secret",
    "cat /proc/1/root@STATE/secret",
    "cat /proc/*/root@STATE/secret",
    "cat /proc/@PID/root@STATE/secret",
    "cat /proc/*/environ | tr '\\0' '\\n'",
    "cat /proc/@PID/environ",
    "cat /proc/@ME/environ",
    "for fd in /proc/*/fd/*; do timeout 1 head -c 100 $fd; done",
    "cat @ELSE/.aws/credentials",
    "grep -rs canary-7f3a91 /home /root /var /opt /srv /mnt /run /tmp",
    "umount .roundturn; cat .roundturn/secret",
    "umount -l @STATE; cat @STATE/secret",
    "mount -o remount,rw @STATE; cat @STATE/secret",
    "mount --bind @ELSE /tmp; cat /tmp/.aws/credentials",
    "mkdir /tmp/m; mount -t proc proc /tmp/m; cat /tmp/m/@PID/environ",
    "unshare -Urm sh -c 'umount @STATE; cat @STATE/secret'",
    "unshare -m sh -c 'umount @STATE; cat @STATE/secret'",
    "unshare -r cat @STATE/secret",
    "nsenter -t 1 -m cat @STATE/secret",
    "nsenter -t @PID -a cat @STATE/secret",
    "chroot /proc/1/root cat @STATE/secret",
    "setpriv --reuid 0 cat @STATE/secret",
    "su root -c 'cat @STATE/secret'",
    "bwrap --bind / / cat @STATE/secret",
    f"{PY} 'import os; fd=os.open(\".\",0); os.chroot(\".\"); os.fchdir(fd); print(open(\"@STATE/secret\").read())'",
    f"{PY} 'import ctypes; c=ctypes.CDLL(None); print(c.ptrace(16,@PID,0,0)); print(open(\"/proc/@PID/environ\").read())'",
    f"{PY} 'import ctypes; c=ctypes.CDLL(None); print(c.umount2(b\"@STATE\",2)); print(open(\"@STATE/secret\").read())'",
    "dd if=/dev/vda bs=1M count=1 | strings | head; ls /dev/sd* /dev/vd* /dev/nvme* && echo came-'in'",
    "mknod disk b 254 0 && echo came-'in'",
    "cat /etc/shadow && echo came-'in'",
    "ls /sys/class && echo came-'in'",
    "dmesg && echo came-'in'",
    "ls /run/docker.sock /var/run/docker.sock && echo came-'in'",
    # writes
    "echo x >@ELSE/written",
    "echo x >@STATE/written",
    "rm -rf @STATE/secret @STATE",
    "ln -s @ELSE out; echo x >out/written",
    "echo x >/proc/self/root@ELSE/written",
    "exec 9<@ELSE; echo x >/proc/self/fd/9/written",
    "mkdir -p @ELSE && echo x >@ELSE/written",
    "touch /usr/written && echo came-'in'",
    "touch /etc/written && echo came-'in'",
    "touch /written && echo came-'in'",
    "mount -o remount,rw / && echo came-'in'",
    "mount -o remount,rw /usr && echo came-'in'",
    # Opened, never written: an attack that works here would change the machine that runs the tests.
    ": >>/proc/sys/kernel/core_pattern && echo came-'in'",
    ": >>/proc/sys/vm/drop_caches && echo came-'in'",
    ": >>/proc/sysrq-trigger && echo came-'in'",
    "cp /bin/id own; chmod u+s own; grep -q 'NoNewPrivs:.*0' /proc/self/status && echo came-'in'",
    "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo came-'in'",
    "hostname other && echo came-'in'",
    # other processes
    "kill -9 @PID",
    "kill -9 @ME",
    "kill -9 -1",
    "kill -9 1; kill -TERM 1",
    "kill -9 $PPID; kill -9 -$PPID",
    "renice -n 19 -p @PID && echo came-'in'",
    # network
    "echo x >/dev/tcp/127.0.0.1/@PORT",
    f"{PY} 'import socket; socket.create_connection((\"127.0.0.1\",@PORT))'",
    "ip link set lo up; ip netns exec x true; echo x >/dev/tcp/localhost/@PORT",
    "nsenter -t 1 -n bash -c 'echo x >/dev/tcp/127.0.0.1/@PORT'",
    UNIX + " @STATE/socket",
    UNIX + " .roundturn/socket",
    UNIX + " @@@NAME",
    "getent hosts example.com && echo came-'in'",
    "grep -c . /proc/net/route | grep -vqx 1 && echo came-'in'",
    # terminals
    f"{PY} 'import fcntl,termios; fcntl.ioctl(open(\"/dev/tty\"),termios.TIOCSTI,b\"x\")' && echo came-'in'",
)  # fmt: skip


@requirement("X-12", "P132")
@pytest.mark.parametrize("attack", ATTACKS)
async def test_the_attack_has_no_effect(scene: Scene, attack: str) -> None:
    output = await scene.run(attack)
    assert SECRET not in output.replace(attack, "")
    assert OPEN not in output
    assert not scene.reached()
    assert scene.victim.poll() is None
    assert (scene.state / "secret").read_text() == SECRET
    assert sorted(os.listdir(scene.elsewhere)) == [".aws"]
    assert not (scene.state / "written").exists()


async def test_the_canaries_are_in_reach_without_the_sandbox(scene: Scene) -> None:
    for command in ("cat @STATE/secret", "cat /proc/@PID/environ", "cat @ELSE/.aws/credentials"):
        done = subprocess.run(
            ["/bin/bash", "-c", scene.fill(command)], capture_output=True, text=True, check=True
        )
        assert SECRET in done.stdout
    subprocess.run(["/bin/bash", "-c", scene.fill("echo x >/dev/tcp/127.0.0.1/@PORT")], check=True)
    assert scene.reached()


async def test_a_command_works_in_its_action_directory_and_a_private_place(scene: Scene) -> None:
    assert await scene.run('echo a >b; cat b; cd "$HOME"; cat b; mktemp >/dev/null && pwd') == (
        f"a\na\n{scene.action}\n"
    )
    assert (scene.action / "b").read_text() == "a\n"


@pytest.mark.parametrize(("command", "told"), [("exit 7", "exit code 7"), ("kill -9 $$", "exit code 137")])
async def test_an_exit_code_comes_through(scene: Scene, command: str, told: str) -> None:
    assert told in await scene.run(command)


@requirement("P25")
async def test_what_is_left_in_the_background_is_ended(scene: Scene) -> None:
    await scene.run("setsid nohup sh -c 'sleep 3; echo x >late' >/dev/null 2>&1 & echo $! ; sleep 0.2")
    marker = f"IDEMPOTENCY_KEY=call-{scene.port}".encode()
    left = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            left += [entry.name] if marker in found else []
    assert left == []
