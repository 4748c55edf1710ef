"""The one way from a path that a model wrote to a file: confined to the action directory (X-12, P134).

Names are checked first; then every directory on the way is opened from the one before it, never through a
symbolic link, so that a link swapped in between the check and the use leads nowhere. Hazard: a hard link to a
file below a protected directory is an ordinary file and cannot be told apart.
"""

import errno
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from roundturn.errors import ToolFailed
from roundturn.tool import ToolContext

MAX_NAME_BYTES = 255  # NAME_MAX of ext4, XFS and APFS
MAX_PATH_BYTES = 4096  # PATH_MAX of Linux
KERNEL_TREES = (Path("/proc"), Path("/sys"), Path("/dev"))  # matters when an action directory is above them
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a FIFO must not block
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

Identity = tuple[int, int]


@dataclass(frozen=True)
class Place:
    """Where a confined path ends: an open descriptor of its directory, and the last name in it."""

    directory: int
    name: str
    shown: str


def open_confined(path: str, context: ToolContext) -> int:
    """A descriptor of the regular file at `path`, open for reading; the caller closes it.

    Raises `ToolFailed` of kind `path_refused`, and `FileNotFoundError` or `IsADirectoryError` for a path that
    is allowed and leads to no file.
    """
    if not parts_of(path, context):
        raise IsADirectoryError(path)
    with confined_place(path, context) as place:
        if existing(place, context) is None:
            raise FileNotFoundError(path)
        return open_regular(place, context)


@contextmanager
def confined_place(path: str, context: ToolContext, *, create: bool = False) -> Iterator[Place]:
    """The open directory that holds the last name of `path`; with `create`, missing directories are made.

    Raises `ToolFailed` of kind `path_refused`, and `FileNotFoundError` when one of them is missing.
    """
    parts = parts_of(path, context)
    if not parts:
        raise _refused(path, "it is the action directory itself; name a file inside it")
    protected = Protected(context)
    with (
        action_directory(path, context) as base,
        descended(base, parts[:-1], path, protected, create=create) as directory,
    ):
        if protected.names(parts):
            raise _protected(path)
        yield Place(directory, parts[-1], path)


@contextmanager
def descended(
    base: int, parts: tuple[str, ...], path: str, protected: "Protected", *, create: bool = False
) -> Iterator[int]:
    """The open directory `parts` below `base`, which is an open action directory; `path` is for what is said.

    Raises `ToolFailed` of kind `path_refused`, and `FileNotFoundError`.
    """
    current = os.dup(base)
    try:
        for depth, part in enumerate(parts, 1):
            if protected.names(parts[:depth]):
                raise _protected(path)
            below = _enter(Place(current, part, path), create)
            os.close(current)
            current = below
            if protected.has(os.fstat(current)):
                raise _protected(path)
        yield current
    finally:
        os.close(current)


def existing(place: Place, context: ToolContext) -> os.stat_result | None:
    """What the last name is now, None when nothing is there. Raises `ToolFailed` of kind `path_refused`."""
    try:
        found = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise _unusable(place, fault) from None
    _refuse_kind(place, found, context)
    return found


def parts_of(path: str, context: ToolContext) -> tuple[str, ...]:
    """The names below the action directory, from the text alone. Raises `ToolFailed` of kind `path_refused`."""
    if not path:
        raise _refused(path, "it is empty; give a path relative to the action directory")
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in path):
        raise _refused(path, "it has control characters; use printable characters only")
    if URL.match(path):
        raise _refused(path, "it is a URL; give a path relative to the action directory")
    if path.startswith("~"):
        raise _refused(path, "~ is not expanded; give a path relative to the action directory")
    pure = PurePosixPath(path)
    if ".." in pure.parts:
        raise _refused(path, "it has '..'; write the path without going up")
    if pure.is_absolute():
        pure = _below(pure, path, context.cwd)
    longest = max((len(os.fsencode(part)) for part in pure.parts), default=0)
    if longest > MAX_NAME_BYTES or len(os.fsencode(path)) > MAX_PATH_BYTES:
        why = f"a name may have {MAX_NAME_BYTES} bytes, a path {MAX_PATH_BYTES}; use a shorter one"
        raise _refused(path, why)
    return pure.parts


def _below(pure: PurePosixPath, path: str, cwd: Path) -> PurePosixPath:
    for root in (cwd, Path(os.path.realpath(cwd))):  # /tmp is a link on macOS, and models see both spellings
        if pure.is_relative_to(root):
            return pure.relative_to(root)
    raise _refused(path, "it is outside the action directory; use a path relative to it")


@contextmanager
def action_directory(path: str, context: ToolContext) -> Iterator[int]:
    """Opened. Links in *its* path are the operator's own and are followed. Raises `ToolFailed`: `path_refused`."""
    try:
        base = os.open(context.cwd, DIRECTORY)
    except OSError as fault:
        why = f"the action directory cannot be opened ({fault.strerror}); ask the operator"
        raise _refused(path, why) from None
    try:
        protected = _identities(context.protected)
        real = Path(os.path.realpath(context.cwd))
        if any(_identity(level) in protected for level in (real, *real.parents)):
            raise _refused(path, "the action directory is inside a protected directory; ask the operator")
        yield base
    finally:
        os.close(base)


def _enter(place: Place, create: bool) -> int:
    """Opens one directory below another, never through a link."""
    if create:
        try:
            with suppress(FileExistsError):
                os.mkdir(place.name, dir_fd=place.directory)
        except OSError as fault:
            raise _unusable(place, fault) from None
    try:
        return os.open(place.name, DIRECTORY | os.O_NOFOLLOW, dir_fd=place.directory)
    except FileNotFoundError:
        raise
    except OSError as fault:
        raise _unusable(place, fault) from None


def open_regular(place: Place, context: ToolContext) -> int:
    """A descriptor of the last name, for reading; the caller closes it.

    Raises `ToolFailed` of kind `path_refused`, `FileNotFoundError` and `IsADirectoryError`.
    """
    try:
        opened = os.open(place.name, REGULAR, dir_fd=place.directory)
    except FileNotFoundError:
        raise
    except OSError as fault:
        raise _unusable(place, fault) from None
    try:
        found = os.fstat(opened)  # what was opened, not what was looked at before
        _refuse_kind(place, found, context)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(place.shown)
    except BaseException:
        os.close(opened)
        raise
    return opened


def _refuse_kind(place: Place, found: os.stat_result, context: ToolContext) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise _refused(place.shown, f"{place.name!r} is a symbolic link; name what it points to")
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise _refused(place.shown, "it is a device, pipe or socket; only regular files can be used")
    if Protected(context).has(found):
        raise _protected(place.shown)


class Protected:
    """What no tool may touch, as it is now.

    By identity, not by name: file systems differ in case and normalisation, and mounts have two names. A protected
    directory that does not exist yet has no identity; its name stands in, in any case and normalisation.
    """

    def __init__(self, context: ToolContext) -> None:
        self._cwd = context.cwd
        self._identities = _identities((*context.protected, *KERNEL_TREES))
        absent = [directory for directory in context.protected if _identity(directory) is None]
        self._absent = {_folded(directory) for directory in absent}

    def has(self, found: os.stat_result) -> bool:
        return (found.st_dev, found.st_ino) in self._identities

    def names(self, parts: tuple[str, ...]) -> bool:
        """Whether `parts` below the action directory would be one of those that are not there yet."""
        return bool(self._absent) and _folded(Path(self._cwd, *parts)) in self._absent


def _protected(path: str) -> ToolFailed:
    return _refused(path, "it is in a protected directory; use another place in the action directory")


def _folded(path: Path) -> str:
    return unicodedata.normalize("NFC", os.path.realpath(path)).casefold()


def _identities(directories: tuple[Path, ...]) -> set[Identity]:
    return {found for directory in directories if (found := _identity(directory)) is not None}


def _identity(directory: Path) -> Identity | None:
    try:
        found = directory.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _unusable(place: Place, fault: OSError) -> ToolFailed:
    """Linux says ENOTDIR and macOS ELOOP for a link where a directory should be; both are looked up."""
    if fault.errno in (errno.ELOOP, errno.ENOTDIR):
        try:
            found = os.stat(place.name, dir_fd=place.directory, follow_symlinks=False)
            is_link = stat.S_ISLNK(found.st_mode)
        except OSError:
            is_link = True  # it changed while we looked
        if is_link:
            return _refused(place.shown, f"{place.name!r} is a symbolic link; name what it points to")
        return _refused(place.shown, f"{place.name!r} is not a directory; check the path")
    return _refused(place.shown, f"{place.name!r} cannot be used ({fault.strerror}); choose another path")


def _refused(path: str, why: str) -> ToolFailed:
    printable = "".join(c if c.isprintable() else "?" for c in path[:200])
    return ToolFailed(f"The path {printable!r} is refused: {why}.", "path_refused")


def shown(name: str) -> str:
    """A name from the disk as one line that stands for no other name and for no note of ours.

    One with what is not printable, a backslash, a space at an end or the beginning of a note becomes a quoted word
    with escapes: `\\xNN` is a byte that is not UTF-8, `\\uNNNN` and `\\UNNNNNNNN` are characters.
    """
    if (
        name.isprintable()
        and "\\" not in name
        and name == name.strip(" ")
        and not name.startswith(('"', "...", "("))
    ):
        return name
    return '"' + "".join(_escaped(character) for character in name) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    if 0xDC80 <= code <= 0xDCFF:  # how Python holds a byte that is not UTF-8 (PEP 383)
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
