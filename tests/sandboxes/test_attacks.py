"""What a hostile command tries against the real bubblewrap; a canary tells whether it got anywhere."""

import os
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from roundturn.sandbox import Sandbox
from roundturn.sandboxes.none import Unconfined
from roundturn.tool import ToolContext
from roundturn.tools.reaper import holders
from roundturn.tools.shell import Bash, BashInput
from tests.requirements import requirement
from tests.sandboxes.real import bubblewrap

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
    sandbox: Sandbox

    def fill(self, command: str) -> str:
        words = {
            "STATE": self.state, "ELSE": self.elsewhere, "PORT": self.port, "PID": self.victim.pid, "ME": os.getpid(),
            "NAME": f"roundturn-{self.port}",
        }  # fmt: skip
        for word, value in words.items():
            command = command.replace(f"@{word}", str(value))
        return command

    async def run(self, command: str) -> str:
        bash = Bash(self.sandbox)
        context = ToolContext(self.action, f"call-{self.port}", (self.state,))
        return (await bash.execute(BashInput(command=self.fill(command), timeout_s=20), context)).output

    def effects(self, output: str, attack: str) -> list[str]:
        found = {
            "it said the secret": SECRET in output.replace(attack, ""),
            "it said that it came in": OPEN in output,
            "it reached a listener": self.reached(),
            "it ended a process": self.victim.poll() is not None,
            "it changed the state": files(self.state) != {"secret": SECRET},
            "it wrote elsewhere": sorted(os.listdir(self.elsewhere)) != [".aws"],
        }
        return [effect for effect, seen in found.items() if seen]

    def reached(self) -> bool:
        for listener in self.listeners:
            try:
                listener.accept()[0].close()
                return True
            except BlockingIOError:
                continue
        return False


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*") if path.is_file()}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    action, elsewhere = tmp_path / "action", tmp_path / "person"
    state = action / ".roundturn"
    for folder in (state, elsewhere / ".aws"):
        folder.mkdir(parents=True)
    (state / "secret").write_text(SECRET)
    (elsewhere / ".aws" / "credentials").write_text(SECRET)
    sandbox = bubblewrap(state)
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
    yield Scene(action, state, elsewhere, port, victim, listeners, sandbox)
    victim.kill()
    victim.wait()
    for listener in listeners:
        listener.close()


PY = "python3 -c"
# The numbers are asm-generic's but on x86_64.
CALL = (
    'import ctypes, platform; X86 = platform.machine() == "x86_64"; call = ctypes.CDLL(None).syscall; '
    "KEYCTL, ADD_KEY, PERF = (250, 248, 298) if X86 else (219, 217, 241)"
)
UNIX = f"{PY} 'import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1].replace(\"@@\", chr(0)))'"
# Harmless on the machine that runs the tests, and so tried without a sandbox as well: there they do get somewhere.
REACHING = (
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
    "cat /proc/*/root@STATE/secret",
    "cat /proc/@PID/root@STATE/secret",
    "cat /proc/@PID/environ",
    "cat @ELSE/.aws/credentials",
    "echo x >@ELSE/written",
    "echo x >@STATE/written",
    "rm -rf @STATE/secret @STATE",
    "ln -s @ELSE out; echo x >out/written",
    "echo x >/proc/self/root@ELSE/written",
    "exec 9<@ELSE; echo x >/proc/self/fd/9/written",
    "mkdir -p @ELSE && echo x >@ELSE/written",
    "kill -9 @PID",
    "echo x >/dev/tcp/127.0.0.1/@PORT",
    f"{PY} 'import socket; socket.create_connection((\"127.0.0.1\",@PORT))'",
    UNIX + " @STATE/socket",
    UNIX + " .roundturn/socket",
    UNIX + " @@@NAME",
)  # fmt: skip
# These would change the machine, or need more there than everybody has.
OTHERS = (
    # reads
    "cat /proc/1/root@STATE/secret",
    "cat /proc/*/environ | tr '\\0' '\\n'",
    "cat /proc/@ME/environ && echo came-'in'",
    "for fd in /proc/*/fd/*; do timeout 0.1 head -c 100 $fd; done",
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
    "cat $(find / -name credentials -not -path '/proc/*')",
    "[ -n \"$SSH_AUTH_SOCK$DOCKER_HOST$KUBECONFIG\" ] && echo came-'in'",
    "unshare -U true && echo came-'in'",
    # writes
    "cd ..; mv action other && echo came-'in'",
    "cat /bin/true >/usr/bin/written; echo x >>/bin/true && echo came-'in'",
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
    # system calls that no namespace holds
    f"{PY} 'import socket; socket.socket(socket.AF_VSOCK)' && echo came-'in'",
    f"{PY} 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)' && echo came-'in'",
    f"{PY} '{CALL}; exit(call(KEYCTL, 0, -3, 1) < 0)' && echo came-'in'",
    f"{PY} '{CALL}; exit(call(ADD_KEY, b\"user\", b\"k\", b\"v\", 1, -2) < 0)' && echo came-'in'",
    f"{PY} '{CALL}; exit(call(425, 4, bytes(200)) < 0)' && echo came-'in'",
    f"{PY} '{CALL}; exit(call(PERF, bytes(120), 0, -1, -1, 0) < 0)' && echo came-'in'",
    f"{PY} '{CALL}; exit(call(272, 0x10000000) < 0 if X86 else 1)' && echo came-'in'",
    # other processes
    "kill -9 @ME",
    "kill -9 -1",
    "kill -9 1; kill -TERM 1",
    "kill -9 $PPID; kill -9 -$PPID",
    "renice -n 19 -p @PID && echo came-'in'",
    # network
    "ip link set lo up; ip netns exec x true; echo x >/dev/tcp/localhost/@PORT",
    "nsenter -t 1 -n bash -c 'echo x >/dev/tcp/127.0.0.1/@PORT'",
    "getent hosts example.com && echo came-'in'",
    "grep -c . /proc/net/route | grep -vqx 1 && echo came-'in'",
    # terminals
    f"{PY} 'import fcntl,termios; fcntl.ioctl(open(\"/dev/tty\"),termios.TIOCSTI,b\"x\")' && echo came-'in'",
)  # fmt: skip


@requirement("X-12", "P132")
@pytest.mark.parametrize("attack", [*REACHING, *OTHERS])
async def test_the_attack_has_no_effect(scene: Scene, attack: str) -> None:
    assert scene.effects(await scene.run(attack), attack) == []


@pytest.mark.parametrize("attack", REACHING)
async def test_without_the_sandbox_the_attack_gets_somewhere(scene: Scene, attack: str) -> None:
    scene.sandbox = Unconfined()
    assert scene.effects(await scene.run(attack), attack) != []


async def test_the_attacks_have_the_python_that_they_are_written_in(scene: Scene) -> None:
    assert await scene.run(f"{PY} 'print(6 * 7)'") == "42\n"


@requirement("P25")
async def test_what_is_left_in_the_background_has_no_effect_later(scene: Scene) -> None:
    await scene.run(
        "setsid nohup sh -c 'sleep 300; echo x >late' >/dev/null 2>&1 & (trap '' TERM; sleep 300) &"
    )
    marker = f"IDEMPOTENCY_KEY=call-{scene.port}".encode()
    assert [pid for pid in holders(marker) if pid != os.getpid()] == []
    assert not (scene.action / "late").exists()
