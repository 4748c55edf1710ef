"""Who may know whom: the import contracts, and the doors that only one module may use."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGES, ROOT, called, module, product
from tests.requirements import requirement

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
ACTIVITY_START = re.compile(r"workflow\.(execute|start)_(local_)?activity")


def test_the_import_contracts_hold() -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([str(lint), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def test_every_root_module_of_roundturn_is_under_the_contract_for_root_modules() -> None:
    (contract,) = (c for c in CONFIG["contracts"] if "root modules" in c["name"])
    roots = {m.name for m in product() if m.is_pure_root and not m.path.endswith("__init__.py")}
    assert set(contract["source_modules"]) == roots


def test_every_plural_package_of_roundturn_is_forbidden_to_the_root_modules() -> None:
    (contract,) = (c for c in CONFIG["contracts"] if "root modules" in c["name"])
    packages = {f"roundturn.{p.parent.name}" for p in (ROOT / "roundturn").glob("*/__init__.py")}
    assert set(contract["forbidden_modules"]) == packages


@pytest.mark.parametrize("name", PACKAGES)
def test_no_other_installed_distribution_ships_one_of_our_import_names(name: str) -> None:
    owners = set(importlib.metadata.packages_distributions().get(name, ()))
    assert owners <= {"roundturn"}, f"{name} is also shipped by {owners - {'roundturn'}}"


def test_only_calls_py_starts_activities() -> None:
    found = [m.path for m in product() if ACTIVITY_START.search(m.text)]
    assert found == ["workflows/calls.py"]


def test_only_calls_py_and_the_composition_root_know_the_classes_of_activities() -> None:
    known = {
        m.path
        for m in product()
        for name, _ in m.imports()
        if name.startswith("activities.") and name.endswith("Activities")
    }
    assert known == {"workflows/calls.py", "worker/build.py"}


def test_only_failures_py_makes_application_errors() -> None:
    makers = {m.path for m in product() for call in m.calls() if called(call) == "ApplicationError"}
    assert makers == {"activities/failures.py"}


@requirement("M-10")
def test_tools_are_executed_by_the_registry_and_the_registry_by_the_activity_and_nobody_else() -> None:
    callers = {
        (m.path, ast.unparse(call.func))
        for m in product()
        if not m.path.startswith("roundturn/stores/")  # SQL is executed there
        for call in m.calls()
        if called(call) == "execute"
    }
    assert callers == {
        ("roundturn/registry.py", "tool.execute"),
        ("activities/tools.py", "self._registry.execute"),
    }


@requirement("M-11")
def test_there_is_no_call_beside_the_chain() -> None:
    beside = [m.at(call) for m in product() for call in m.calls() if called(call) == "call"]
    defined = [m.at(f) for m in (module("roundturn/registry.py"), module("roundturn/tool.py")) for f in m.functions()
               if f.name == "call"]  # fmt: skip
    assert beside + defined == []


@requirement("M-12")
def test_tools_and_middleware_are_registered_at_assembly_only() -> None:
    places = {
        m.path
        for m in product()
        for call in m.calls()
        if called(call) in ("use", "register") and "registry" in ast.unparse(call.func)
    }
    assert places == {"worker/build.py", "gateway/decisions.py", "roundturn/middleware/__init__.py"}


@requirement("T-13", "T-14", "T-15", "M-18")
def test_tools_know_no_rules_no_approvals_no_middleware_and_no_screen() -> None:
    foreign = ("roundturn.rules", "roundturn.approval", "roundturn.middleware", "roundturn.registry", "roundturn.call",
               "roundturn.store", "rich", "typer", "temporalio", "openai")  # fmt: skip
    assert _imports_of("roundturn/tools/", foreign) == []


@requirement("M-17", "M-18")
def test_middleware_knows_no_tool_no_model_and_no_channel() -> None:
    foreign = ("roundturn.tools", "roundturn.models", "roundturn.channels", "roundturn.stores", "openai", "httpx2",
               "sqlalchemy", "temporalio")  # fmt: skip
    assert _imports_of("roundturn/middleware/", foreign) == []


@requirement("R-14")
def test_there_is_one_matcher_for_names() -> None:
    matching = {
        m.path
        for m in product()
        for name, _ in m.imports()
        if name.split(".")[0] in ("fnmatch", "glob", "wcmatch")
    }
    assert matching == set(), "theirs know sets in brackets, or other stars; ours is roundturn/glob.py"


def _imports_of(folder: str, foreign: tuple[str, ...]) -> list[str]:
    return [
        f"{m.at(line)} {name}"
        for m in product()
        if m.path.startswith(folder)
        for name, line in m.imports()
        if any(name == other or name.startswith(f"{other}.") for other in foreign)
    ]


@requirement("M-16", "M-01")
def test_the_executor_of_the_chain_knows_no_policy_and_no_store() -> None:
    """What it runs around a tool is all of one kind, and what these layers do is none of its business."""
    known = {name.rpartition(".")[0] for name, _ in module("roundturn/registry.py").imports()}
    ours = {name for name in known if name.startswith("roundturn")}
    assert ours == {f"roundturn.{name}" for name in ("call", "errors", "ids", "message", "names", "tool")}
