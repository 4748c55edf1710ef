"""Blobs: found by their digest only, stored once."""

import asyncio
import hashlib
from pathlib import Path

import pytest

from roundturn.stores.blobs import DirectoryBlobs
from tests.requirements import requirement


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobs:
    return DirectoryBlobs(tmp_path / "blobs")


@pytest.mark.parametrize("content", [b"", b"a\x00b\xff", b"x" * 5_000_000])
async def test_a_content_is_found_under_its_digest(blobs: DirectoryBlobs, content: bytes) -> None:
    digest = await blobs.put(content)
    assert digest == hashlib.sha256(content).hexdigest()
    assert await blobs.get(digest) == content


async def test_the_same_content_is_stored_once(blobs: DirectoryBlobs, tmp_path: Path) -> None:
    digests = await asyncio.gather(*(blobs.put(b"same") for _ in range(8)))
    assert len(set(digests)) == 1
    assert [path.name for path in files(tmp_path)] == [digests[0]]
    inode = files(tmp_path)[0].stat().st_ino
    await blobs.put(b"same")
    assert files(tmp_path)[0].stat().st_ino == inode


async def test_an_unknown_digest_is_not_there(blobs: DirectoryBlobs) -> None:
    assert await blobs.get("0" * 64) is None


@requirement("P134")
@pytest.mark.parametrize(
    "name", ["../../secret", "secret", "", "..", "a/b", "C:\\x", "A" * 64, "ü" * 64, "a\x00b"]
)
async def test_what_is_no_digest_never_becomes_a_path(
    blobs: DirectoryBlobs, tmp_path: Path, name: str
) -> None:
    for place in (tmp_path, tmp_path / "blobs", tmp_path / "blobs" / "se"):
        place.mkdir(exist_ok=True)
        (place / "secret").write_text("secret")
    assert await blobs.get(name) is None


@requirement("P134")
async def test_a_digest_with_a_line_break_is_no_digest(blobs: DirectoryBlobs, tmp_path: Path) -> None:
    digest = await blobs.put(b"x")
    (tmp_path / "blobs" / digest[:2] / f"{digest}\n").write_text("planted")
    assert await blobs.get(f"{digest}\n") is None


async def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        await DirectoryBlobs(tmp_path / "file").put(b"x")
    assert files(tmp_path) == [tmp_path / "file"]
