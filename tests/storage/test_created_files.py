"""What we write is ours alone: no name leads elsewhere through a symbolic link, and strangers cannot read it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kraft_trio.storage.disk.created_files import write_own_text
from kraft_trio.storage.disk.part_file import PART_SUFFIX, PartFile
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.tracing.background_file import _made


@pytest.fixture
def disk() -> RealDisk:
    return RealDisk()


def link(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return target


WRITES: dict[str, Callable[[RealDisk, Path], object]] = {
    "open": lambda disk, path: disk.open(str(path), create=True),
    "allocate": lambda disk, path: disk.allocate(str(path), 10),
    "lock": lambda disk, path: disk.lock(str(path)),
    "trace": lambda disk, path: os.close(_made(str(path))),
    "report": lambda disk, path: write_own_text(path, "text"),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("is_dangling", [True, False])
def test_no_write_follows_a_symbolic_link(name: str, is_dangling: bool, disk: RealDisk, tmp_path: Path) -> None:
    target = link(tmp_path / "name", tmp_path / "target")
    if not is_dangling:
        target.write_bytes(b"")
    with pytest.raises(OSError, match=r"a symbolic link, which is not written through: .*name"):
        WRITES[name](disk, tmp_path / "name")
    assert target.exists() is not is_dangling
    assert is_dangling or target.read_bytes() == b""


def test_replaced_file_takes_the_place_of_links(disk: RealDisk, tmp_path: Path) -> None:
    targets = [link(tmp_path / name, tmp_path / f"target-{name}") for name in ("file", "file.tmp")]
    disk.replace_now(str(tmp_path / "file"), b"content")
    assert (tmp_path / "file").read_bytes() == b"content"
    assert not (tmp_path / "file").is_symlink()
    assert not any(target.exists() for target in targets)


def test_part_of_a_snapshot_takes_the_place_of_a_link(disk: RealDisk, tmp_path: Path) -> None:
    target = link(tmp_path / f"saved{PART_SUFFIX}", tmp_path / "target")
    PartFile(disk, str(tmp_path / "saved"), mode=0o400)
    assert not target.exists()
    assert not (tmp_path / f"saved{PART_SUFFIX}").is_symlink()


def test_name_of_a_dangling_link_is_taken(disk: RealDisk, tmp_path: Path) -> None:
    """`kraft snapshot save` leaves alone whatever stands there."""
    link(tmp_path / "saved", tmp_path / "nowhere")
    assert disk.exists(str(tmp_path / "saved"))


def test_strangers_can_read_nothing(disk: RealDisk, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        disk.make_directory(str(tmp_path / "a" / "b"))
        for name, write in WRITES.items():
            write(disk, tmp_path / "a" / "b" / name)
        disk.replace_now(str(tmp_path / "a" / "b" / "replaced"), b"")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes.pop("a") == modes.pop("b") == 0o700
    assert set(modes.values()) == {0o600}
    assert len(modes) == len(WRITES) + 1
