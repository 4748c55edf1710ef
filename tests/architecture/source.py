"""The product's source as syntax trees, parsed once for all tests of this folder."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("roundturn", "workflows", "activities", "worker", "gateway")


@dataclass(frozen=True)
class Module:
    """`path` is relative to the root, with slashes: `roundturn/tools/files.py`."""

    path: str
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def is_pure_root(self) -> bool:
        """A root module of `roundturn`: a contract, passed through the workflow sandbox."""
        return self.path.startswith("roundturn/") and self.path.count("/") == 1

    def lines(self) -> int:
        return len(self.text.splitlines())

    def calls(self) -> Iterator[ast.Call]:
        yield from (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def imports(self) -> Iterator[tuple[str, int]]:
        """Dotted names, `module.name` for `from module import name`, with their lines; also those inside functions."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)

    def at(self, node: ast.AST | int) -> str:
        return f"{self.path}:{node if isinstance(node, int) else node.lineno}"  # type: ignore[attr-defined]


@cache
def product() -> tuple[Module, ...]:
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return tuple(
        Module(path.relative_to(ROOT).as_posix(), text, ast.parse(text))
        for path, text in ((path, path.read_text()) for path in paths)
    )


def module(path: str) -> Module:
    return next(found for found in product() if found.path == path)


@cache
def tracked() -> tuple[Path, ...]:
    """The files of the tree as git sees it, those not yet added included."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.decode()
    return tuple(path for path in (ROOT / name for name in listing.split("\0") if name) if path.is_file())


def called(call: ast.Call) -> str:
    """The name that a call names last: `execute` of `self._registry.execute(…)`."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""
