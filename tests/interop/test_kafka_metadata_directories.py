"""Kafka's own image and ours, of the directories of a cluster whose brokers and topics came and went."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraft_trio.cli.metadata.choice_of_replica import furthest
from kraft_trio.cli.metadata.queries import differences
from kraft_trio.spark.directories.as_of import AsOf
from kraft_trio.spark.directories.replicas import Replica
from kraft_trio.spark.metadata.replaying import Replaying
from kraft_trio.storage.batches.batch import peek_header
from scripts.metadata_sample.shop import BROKERS, CONTROLLERS, Shop
from tests.interop.kafka_images import replay_files, things_of

pytestmark = pytest.mark.nightly

MOMENTS = 30
"""About as many offsets of each directory, its end among them."""
SMALL_SEGMENTS = {"internal.metadata.log.segment.bytes": 4000}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Its history is over."""
    made = Shop(tmp_path_factory.mktemp("shop"), print, SMALL_SEGMENTS)
    try:
        made.play()
        yield made
    finally:
        made.stop()


def ends(path: Path) -> Iterator[int]:
    """The end offset of each batch in a segment (exclusive)."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        header = peek_header(data, at)
        at += header.size_in_bytes
        yield header.last_offset + 1


def some_of(offsets: list[int]) -> list[int]:
    """About MOMENTS of them, and the last one."""
    return sorted({*offsets[:: max(1, len(offsets) // MOMENTS)], offsets[-1]})


def ours(replica: Replica, offset: int) -> Replaying:
    replaying = Replaying(replica, AsOf(offset))
    assert replaying.run() == []
    return replaying


def compare(tmp_path: Path, directory: Path) -> tuple[int, int]:
    """Compare as of many offsets, by the log from its start and from each snapshot on.

    Returns the numbers of images and of things in them.
    """
    replica = furthest([str(directory)])
    segments = [Path(file.path) for _, file in replica.segments]
    batches = [end for path in segments for end in ends(path)]
    runs: dict[tuple[Path, ...], list[int]] = {}
    if replica.segments[0][0] == 0:
        runs[*segments,] = some_of(batches)
    for id, file in replica.snapshots:
        if id.offset > 0:
            later = [end for end in batches if end > id.offset]
            rest = [
                path
                for path, following in zip(segments, [*segments[1:], None], strict=True)
                if following is None or int(following.stem) > id.offset
            ]
            runs[Path(file.path), *rest] = [id.offset, *(some_of(later) if later else [])]
    images = replay_files(tmp_path, runs)
    offsets = [offset for some in runs.values() for offset in some]
    count = 0
    for offset, theirs in zip(offsets, images, strict=True):
        assert theirs.refused == []
        assert things_of(ours(replica, offset).history.image) == theirs.things, offset
        count += len(theirs.records)
    return len(images), count


def test_our_image_of_a_directory_is_kafkas(shop: Shop, tmp_path: Path, says: Callable[[str], None]) -> None:
    directories = [shop.controllers.partition(id).parent for id in CONTROLLERS]
    directories += [shop.brokers[id].directory for id in BROKERS]
    for one in directories[1:]:
        assert differences(str(directories[0]), str(one), None, None).rows == []
    images, things = (sum(column) for column in zip(*(compare(tmp_path, one) for one in directories), strict=True))
    assert images > MOMENTS * len(directories)
    says(f"{len(directories)} directories, {images} images with {things} things")


def test_our_image_of_a_trimmed_directory_is_kafkas(shop: Shop, tmp_path: Path) -> None:
    """The segments below the newest snapshot are gone, as Kafka's retention deletes them."""
    directory = tmp_path / "trimmed"
    shop.copy(directory)
    replica = furthest([str(directory)])
    newest = replica.snapshots[-1][0].offset
    starts = [start for start, _ in replica.segments]
    kept = max(start for start in starts if start <= newest)
    assert kept > 0
    for start, file in replica.segments:
        if start < kept:
            Path(file.path).unlink()
    for id, file in replica.snapshots[:-1]:
        if id.offset < kept:
            Path(file.path).unlink()
    images, _ = compare(tmp_path, directory)
    assert images > 1


def test_an_audit_of_the_directories_finds_nothing(shop: Shop) -> None:
    """A replica may lag, because nodes were killed at different times."""
    from kraft_trio.spark.audit import CHECKS, audit

    directories = [shop.controllers.partition(id).parent for id in CONTROLLERS]
    directories += [shop.brokers[id].directory for id in BROKERS]
    found = audit(None, directories=[*map(str, directories)])
    assert [f"{one.check}: {one}" for one in found.violations if one.check != "log_lag"] == []
    at_work = {result.check for result in found.results if result.status == "passed"}
    assert {check.name for check in CHECKS if check.source == "metadata"} <= at_work
