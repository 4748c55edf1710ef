"""`roundturn dev`: everything that a home needs, as processes of this machine, until Ctrl-C."""

import asyncio
import fcntl
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gateway.color import ColorChoice
from gateway.dev import confinement, ports, processes
from gateway.dev.processes import Ports
from gateway.dev.supervisor import Supervisor, supervised
from gateway.dev.talk import Talk, notable
from gateway.upgrade import upgrade_store
from roundturn import __version__
from roundturn.agents import load_agents
from roundturn.errors import ConfigurationError, Unavailable, UsageError
from roundturn.models.scripted.scenario import read_scenarios
from roundturn.settings import DEV_FILE, Settings

DEFAULT_PORT = 7233
LAST_PORT = 65_535
LOCK_FILE = "dev.lock"
BUSY_S = 10.0
KILLED = 130
FREE_S = 2.0


@dataclass
class Stack:
    """All that runs for one home; `settings` have its addresses. `cwd`: where the worker starts."""

    settings: Settings
    ports: Ports
    talk: Talk
    scenario: Path = processes.SCENARIOS / "dev.json"
    scripted_because: str = "no OPENAI_API_KEY"
    cwd: Path | None = None
    is_up: bool = False
    supervisor: Supervisor = field(init=False)
    _agents: tuple[int | None, list[str]] = (None, [])  # of the worker with this pid

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(self.settings.home / "logs", self.talk.event, self._changed)

    async def start(self) -> None:
        """Raises what migrations raise. Returns when a message would be answered."""
        settings, supervisor = self.settings, self.supervisor
        temporal = supervisor.start(processes.temporal_part(settings, self.ports))
        model = None
        if self.ports.model is not None:
            model = supervisor.start(processes.model_part(self.ports.model, self.scenario))
        migrated = await _migrate(settings)
        await temporal.up.wait()
        page = f"   ui http://{ports.HOST}:{self.ports.ui}" if self.ports.ui else ""
        self.talk.check("temporal", f"{settings.temporal_address}{page}", temporal.took_s)
        self.talk.check("database", migrated)
        if model is not None:
            await model.up.wait()
        self.talk.check("model", _model_line(self))
        worker = supervisor.start(processes.worker_part(settings, self.cwd), [temporal])
        await worker.up.wait()
        self.talk.check("worker", f"queues {settings.task_queue}, {settings.tools_queue}", worker.took_s)
        self.is_up = True
        self._changed()

    def _changed(self) -> None:
        """`dev.json` names the processes that run now; the other commands find the addresses there."""
        if not self.is_up:
            return
        found = {
            "settings": _shared(self.settings, self.ports),
            "pid": os.getpid(),
            "started": self.talk.started.isoformat(timespec="seconds"),
            "ui": f"http://{ports.HOST}:{self.ports.ui}" if self.ports.ui else None,
            "model": "scripted" if self.ports.model else self.settings.model,
            "agents": self._known_agents(),
            "children": {name: child.pid for name, child in self.supervisor.children.items()},
        }
        path = self.settings.home / DEV_FILE
        written = path.with_name(f"{path.name}.new")
        written.write_text(json.dumps(found, indent=1) + "\n")
        written.replace(path)

    def _known_agents(self) -> list[str]:
        """Those of the worker that runs: read again when there is another, as it has done itself."""
        worker = self.supervisor.children["worker"].pid
        if self._agents[0] != worker:
            with suppress(
                ConfigurationError
            ):  # it was changed since; the worker will say so at its next start
                self._agents = (worker, sorted(load_agents(self.settings.agents_dir)))
        return self._agents[1]

    async def ended(self) -> None:
        """Says whether the ports are free; Temporal's may take a moment after its end."""
        deadline = time.monotonic() + FREE_S
        while True:
            kept = [port for port in self.ports.all() if not ports.is_free(port)]
            if not kept or time.monotonic() > deadline:
                break
            await asyncio.sleep(processes.LOOK_S)
        for port in kept:
            self.talk.warn(_busy(port).detail)
        if not kept:
            self.talk.line(f"ports {' '.join(map(str, self.ports.all()))} are free")


async def run_dev(
    settings: Settings,
    *,
    port: int | None,
    headless: bool,
    color: ColorChoice = "auto",
    verbose: bool,
    scenario: Path | None = None,
) -> int:
    """Until a signal: 0, and 130 when a second one had to kill. 1 when a process was given up, 2 when it was for a setting,
    definition or tool that is wrong.

    `scenario`: what the scripted model says instead of its own greeting.
    Raises `UsageError` for a port that is none and for a scenario beside a real model, `Unavailable` for a port
    that is busy and for a home that is in use, `ConfigurationError`.
    """
    chosen = _choose(port, headless)
    with locked(settings.home):
        settings = _prepared(settings)
        script = _script(settings, scenario)
        talk = Talk(sys.stderr, color=color)
        _refuse_busy(chosen)
        if not settings.model_api_key.get_secret_value():
            chosen = Ports(chosen.temporal, chosen.ui, ports.choose())
        stack = Stack(processes.on_ports(settings, chosen), chosen, talk, script)
        home = _short(settings.home)
        talk.line(f"roundturn {__version__} · development, this machine only · state in {home}")
        try:
            ended = await supervised(stack.supervisor, _serve(stack, verbose))
        finally:
            (settings.home / DEV_FILE).unlink(missing_ok=True)
        if ended.told:
            talk.line(ended.told)
        await stack.ended()
        return {"asked": 0, "killed": KILLED}.get(ended.why, ended.code)


async def _serve(stack: Stack, verbose: bool) -> int:
    await stack.start()
    talk, home = stack.talk, home_option(stack.settings.home)
    if stack.settings.allow_unverified_verdicts:
        talk.warn("verdicts without a token are accepted (dev only)")
    await _say_confinement(stack)
    talk.line()
    talk.line(f'try     roundturn run "hello"{home}      stop  Ctrl-C')
    talk.line(f"logs    {_short(stack.supervisor.logs)}")
    talk.line("-" * 74)
    page = f" ui=http://{ports.HOST}:{stack.ports.ui}" if stack.ports.ui else ""
    ready = f"ready temporal={stack.settings.temporal_address}{page} home={stack.settings.home}"
    with suppress(OSError):
        print(ready, flush=True)  # noqa: T201 - the one line that scripts wait for
    logs = {name: child.log.path for name, child in stack.supervisor.children.items()}
    await notable(stack.settings, logs, talk, verbose)
    return 0


async def _say_confinement(stack: Stack) -> None:
    """Nothing where no tool is on that starts processes."""
    settings = stack.settings
    if not (tools := confinement.starts_processes(settings)):
        return
    logged = stack.supervisor.children["worker"].log.since_start()
    kept, why = await confinement.confinement(settings, logged)
    is_well, said = confinement.told(tools, settings, kept, why)
    if is_well:
        stack.talk.check("sandbox", said)
    else:
        stack.talk.warn(said)


@contextmanager
def locked(home: Path) -> Iterator[None]:
    """One dev at a time on a home; the kernel lets go of the lock however the process ends. Raises `Unavailable`."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        file = (home / LOCK_FILE).open("a+")
    except OSError as fault:
        raise ConfigurationError(
            f"{home} cannot be used: {fault.strerror}", "choose another --home"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid = file.read().strip() or "unknown"
            raise Unavailable(
                f"a roundturn dev or demo (pid {pid}) runs on {home} already",
                "use it, stop it, or take another directory with --home",
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
        file.truncate(0)


def _prepared(settings: Settings) -> Settings:
    """Without what a dev that was killed left in `dev.json`: its addresses are nobody's now."""
    stale = settings.home / DEV_FILE
    stale.unlink(missing_ok=True)
    found: dict[str, object] = {}
    if settings.model_api_key.get_secret_value() == processes.SCRIPTED_KEY:
        found |= {"model_api_key": type(settings.model_api_key)(""), "model_base_url": ""}
        if settings.model == processes.SCRIPTED_MODEL:
            found["model"] = Settings.model_fields["model"].default
        settings = settings.model_copy(update=found)
    if settings.model_base_url and not settings.model_api_key.get_secret_value():
        raise ConfigurationError(
            f"there is a model at {settings.model_base_url}, and no key for it",
            "set OPENAI_API_KEY (any word will do for an endpoint without keys)",
        )
    if "allow_unverified_verdicts" not in settings.model_fields_set:
        settings = settings.model_copy(update={"allow_unverified_verdicts": True})
    return settings


def _script(settings: Settings, scenario: Path | None) -> Path:
    """Read once here, so that a mistake in it is said before anything starts."""
    if scenario is None:
        return processes.SCENARIOS / "dev.json"
    if settings.model_api_key.get_secret_value():
        raise UsageError(
            "--scenario is for the scripted model, and a real one is configured",
            "leave it out, or unset OPENAI_API_KEY and ROUNDTURN_MODEL_API_KEY",
        )
    try:
        read_scenarios(scenario.read_bytes(), str(scenario))
    except OSError as fault:
        raise UsageError(f"{scenario} cannot be read: {fault.strerror}", "name a scenario file") from None
    return scenario.absolute()


def _choose(port: int | None, headless: bool) -> Ports:
    last = LAST_PORT if headless else LAST_PORT - processes.UI_DISTANCE
    if port is not None and not 1 <= port <= last:
        raise UsageError(
            f"--port {port} is not usable",
            f"take one from 1 to {last}" + ("" if headless else ": Temporal's page is 1000 higher"),
        )
    temporal = port or DEFAULT_PORT
    return Ports(temporal, None if headless else temporal + processes.UI_DISTANCE, None)


def _refuse_busy(chosen: Ports) -> None:
    for port in chosen.all():
        if not ports.is_free(port):
            raise _busy(port)


def _busy(port: int) -> Unavailable:
    by = ports.holder(port)
    whose = ", perhaps of another roundturn dev" if by and by.name == "temporal" else ""
    who = f" by {by.name} (pid {by.pid}{whose})" if by else ""
    return Unavailable(
        f"port {port} is in use{who}", f"use --port {ports.choose(processes.UI_DISTANCE)}, or stop it"
    )


async def _migrate(settings: Settings) -> str:
    began = time.monotonic()
    done = await upgrade_store(settings.store_url, BUSY_S)
    where = f"sqlite {_short(done.path)}" if done.path else "postgresql"
    how = (
        f"at {done.after}"
        if done.before == done.after
        else f"migrated {done.before or 'empty'} → {done.after}"
    )
    return f"{where} ({how})   {time.monotonic() - began:.1f} s"


def _shared(settings: Settings, chosen: Ports) -> dict[str, object]:
    """What other commands on this home need to know; a real model's key is not written down."""
    found: dict[str, object] = {
        "temporal_address": settings.temporal_address,
        "temporal_namespace": settings.temporal_namespace,
        "allow_unverified_verdicts": settings.allow_unverified_verdicts,
    }
    if chosen.model is not None:
        found |= {
            "model": settings.model,
            "model_base_url": settings.model_base_url,
            "model_api_key": processes.SCRIPTED_KEY,
        }
    return found


def _model_line(stack: Stack) -> str:
    if stack.ports.model is not None:
        return f"scripted, {stack.settings.model_base_url} ({stack.scripted_because}): answers are canned"
    return f"{stack.settings.model} at {stack.settings.model_base_url or 'the default of the OpenAI client'}"


def home_option(home: Path) -> str:
    """What a command needs to find this home from here."""
    return "" if home == Path(".roundturn").absolute() else f" --home {shlex.quote(str(home))}"


def _short(path: Path) -> str:
    with suppress(ValueError):
        return str(path.relative_to(Path.cwd()))
    return str(path)
