"""The tree as a whole: it names no machine, every suite folder is a package, the gate runs all of it, the wheel is whole."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGES, ROOT, tracked
from tests.requirements import requirement
from tests.requirements_report import compare, marked, read_catalogue

# Written in parts, so that this file does not find itself.
HOMES = re.compile("|".join((r"(?<![\w.}])/wo" + r"rk/", r"(?<![\w.}])/ro" + r"ot/(?!\w*\b\.\.)")))
SCRATCH = re.compile(r"[\"'(= ]/t" + r"mp/")
ADDRESSES = re.compile(
    "|".join(("pypi" + r"\.org", "python" + "hosted", "npm" + "js", "deb" + r"ian\.org", "--index" + "-url"))
)
FOLDERS = (*PACKAGES, "tests", "benchmarks", "docs")
LATER = re.compile(r"\b(TO" + "DO|FIX" + r"ME|XX" + r"X)\b")


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def _found(pattern: re.Pattern[str], paths: tuple[Path, ...]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number} {line.strip()[:80]}"
        for path in paths
        for number, line in enumerate(_text(path).splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    product = tuple(path for path in tracked() if path.relative_to(ROOT).parts[0] in PACKAGES)
    assert _found(HOMES, tracked()) == []
    assert _found(SCRATCH, product) == []


def test_no_file_names_an_address_of_a_package_registry() -> None:
    assert _found(ADDRESSES, tracked()) == []


def test_nothing_is_left_for_later_in_a_comment() -> None:
    assert _found(LATER, tracked()) == []


def test_every_folder_with_tests_is_a_package() -> None:
    folders = {
        path.parent for path in tracked() if path.suffix == ".py" and path.is_relative_to(ROOT / "tests")
    }
    assert [folder for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_the_gate_installs_the_sandbox_that_the_attacks_need() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^if ! command -v bwrap", ci, re.MULTILINE)
    assert re.search(r"apt-get install .*\bbubblewrap\b", ci)


@requirement("M-21")
def test_the_gate_checks_lint_format_types_and_imports_and_runs_the_tests_as_the_readme_does() -> None:
    make, ci, readme = ((ROOT / name).read_text() for name in ("Makefile", ".ci/run", "README.md"))
    for check in ("ruff check", "ruff format --check", "mypy", "lint-imports"):
        assert check in make
    assert "make check" in ci
    assert "make test" in ci
    assert "make test" in readme


def test_every_mark_names_an_item_of_the_catalogue(request: pytest.FixtureRequest) -> None:
    report = compare(read_catalogue(), marked(request.session.items))
    assert report.unknown == (), "docs/requirements.toml does not have these ids"
    assert report.late == (), "these have a test: take them out of [deferred] in docs/requirements.toml"


@requirement("Y-10")
def test_every_file_that_the_guides_name_is_there() -> None:
    guides = (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs" / "concepts.md",
        *ROOT.glob("*/AGENTS.md"),
    )
    named = {
        name
        for guide in guides
        for name in re.findall(r"`((?:" + "|".join(FOLDERS) + r")/[\w./-]*)`", guide.read_text())
    }
    assert len(named) > 30
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_what_is_deferred_is_in_the_catalogue() -> None:
    catalogue = read_catalogue()
    assert catalogue.deferred.keys() <= catalogue.titles.keys()


def test_the_wheel_holds_all_five_packages_with_their_data(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in tracked()
        if path.relative_to(ROOT).parts[0] in PACKAGES
        and path.suffix in (".py", ".md", ".json", ".typed", ".mako")
    }
    example = [
        path.relative_to(ROOT / "examples") for path in tracked() if path.is_relative_to(ROOT / "examples")
    ]
    wanted |= {f"gateway/dev/example/{path.relative_to('incident').as_posix()}" for path in example}
    assert wanted <= names
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    asks = "from gateway.dev import incident; print(incident.folder()); print(incident.task())"
    found = subprocess.run(
        [sys.executable, "-c", asks], cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "installed")},
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert found.startswith(f"{tmp_path / 'installed' / 'gateway' / 'dev' / 'example'}\nCheckout fails")
