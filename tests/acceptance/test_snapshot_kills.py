"""Kill -9 while a snapshot is written, while one is fetched, and while the log is trimmed behind one.

Changes in the node's directory trigger the kill.  The files that remain show which stage it hit, and only kills that
hit the wanted stage count.  KRAFT_ACCEPTANCE_ROUNDS is the number of kills per stage.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import count, cycle

import attrs
import pytest

from harness.node import NodeProcess
from harness.quorum import Quorum
from harness.waiting import WAIT_SECONDS, wait_until
from kraft_trio.protocol.types import OffsetAndEpoch
from kraft_trio.storage.disk.partition_files import CHECKPOINT, LOG, checkpoint_ids, checkpoint_name
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.directory_events import Change, DirectoryEvents, Event
from tests.acceptance.keyed_writer import BackgroundWriter, KeyedWriter
from tests.acceptance.rounds import ROUNDS
from tests.acceptance.snapshot_files import (
    DELETED,
    PART,
    log_start_of,
    names_in,
    size_of,
    snapshots_of,
    verified,
)
from tests.acceptance.stateful_quorum import (
    Sizes,
    assert_states_are_what_was_written,
    installed,
    is_trimmed_past,
    make_stateful_quorum,
)

KEYS = 8000
"""A snapshot has about 2 MB, which are some thirty batches."""
PER_SECOND = 4000
SIZES = Sizes(retention=6_000_000, segment=40_000, between_snapshots=800_000)
"""A trim drops twenty segments at a time."""
PIECE_BYTES = 64 * 1024


@attrs.frozen
class Hit:
    """What a kill has interrupted."""

    node_id: int
    stage: str


@pytest.fixture(scope="module")
def writer_and_quorum(make_module_quorum: MakeQuorum) -> tuple[KeyedWriter, Quorum]:
    """The writer has written every key, and all nodes have a snapshot with all of them."""
    quorum = make_stateful_quorum(
        make_module_quorum, SIZES, controller_quorum_fetch_snapshot_max_bytes=str(PIECE_BYTES)
    )
    quorum.start()
    writer = KeyedWriter("w", quorum.bootstrap_servers, KEYS)
    writer.write(KEYS)
    writer.flush()
    end = writer.offsets[-1] + 1
    wait_until("all have a snapshot", lambda: all(newest_offset(node) >= end for node in quorum.nodes.values()))
    return writer, quorum


@pytest.fixture
def writer(writer_and_quorum: tuple[KeyedWriter, Quorum]) -> KeyedWriter:
    return writer_and_quorum[0]


@pytest.fixture
def quorum(writer_and_quorum: tuple[KeyedWriter, Quorum]) -> Quorum:
    """All nodes run."""
    quorum = writer_and_quorum[1]
    stopped = [node.id for node in quorum.nodes.values() if not node.running]
    if stopped:
        quorum.start(stopped)
    return quorum


def newest_offset(node: NodeProcess) -> int:
    return max((snapshot_id.offset for snapshot_id in snapshots_of(node)), default=0)


def snapshot_bytes(quorum: Quorum) -> int:
    """How large one is now: all keys have been written, and all values are of one size."""
    node = quorum.nodes[1]
    return wait_until("a snapshot stays", lambda: max(0, size_of(node, checkpoint_name(snapshots_of(node)[-1]))))


def kill_when(node: NodeProcess, events: DirectoryEvents, wanted: Callable[[Event], bool]) -> None:
    """SIGKILL at the first event that is wanted, and wait for the end of the process."""
    for event in events.within(2 * WAIT_SECONDS):
        if wanted(event):
            node.send(signal.SIGKILL)
            break
    node.wait()


def part_id(name: str) -> OffsetAndEpoch:
    """Whose part a file is."""
    return checkpoint_ids([name.removesuffix(PART) + CHECKPOINT])[0]


def part_grows_to(node: NodeProcess, size: int, above: int = 0) -> Callable[[Event], bool]:
    """A part, of a snapshot that ends above that offset, has so many bytes."""

    def wanted(event: Event) -> bool:
        return (
            event.change in (Change.CREATED, Change.MODIFIED)
            and event.name.endswith(PART)
            and part_id(event.name).offset > above
            and size_of(node, event.name) >= size
        )

    return wanted


def parts_left(node: NodeProcess) -> dict[OffsetAndEpoch, int]:
    """The bytes that the killed node had of each unfinished snapshot: its own, the leader's, or both."""
    return {part_id(name): size_of(node, name) for name in names_in(node) if name.endswith(PART)}


def deleted_files(node: NodeProcess) -> list[str]:
    return [name for name in names_in(node) if name.endswith(DELETED)]


def named_by_leader(node: NodeProcess) -> list[str]:
    """The snapshots that the latest process began to fetch."""
    return [event["snapshot_id"] for event in node.log_events() if event["event"] == "fetching a snapshot"]


def restart(quorum: Quorum, node: NodeProcess) -> None:
    """It opens what it was killed over, and comes back to the others."""
    end = quorum.described_by_leader()[1].high_watermark
    node.start()
    node.wait_until_listening()
    quorum.wait_until_holds(node.id, end)


def collect(attempt: Callable[[], Hit | None]) -> list[Hit]:
    """Try until as many kills have hit as there are rounds."""
    hits: list[Hit] = []
    for tries in count(1):
        hit = attempt()
        if hit is not None:
            hits.append(hit)
        if len(hits) >= ROUNDS:
            break
        assert tries < 20 + 10 * ROUNDS, f"of {tries} kills {len(hits)} have hit: {hits}"
    for hit in hits:
        print(f"node {hit.node_id}: {hit.stage}")
    print(f"{len(hits)} of {tries} kills have hit")
    return hits


@pytest.mark.rotating(5)
def test_killed_while_a_snapshot_is_written(quorum: Quorum, writer: KeyedWriter) -> None:
    victims = cycle(quorum.nodes.values())
    shares = cycle([0.5, None, 0.0, 0.95, 0.25])
    size = snapshot_bytes(quorum)

    def attempt() -> Hit | None:
        node, share = next(victims), next(shares)
        renamed: list[str] = []

        def is_renamed(event: Event) -> bool:
            if event.change is Change.RENAMED_TO and event.name.endswith(CHECKPOINT):
                renamed.append(event.name)
            return bool(renamed)

        with DirectoryEvents(node.partition_directory) as events:
            kill_when(node, events, is_renamed if share is None else part_grows_to(node, int(share * size)))
        [report] = verified([node])
        taken = [event["snapshot_id"] for event in node.log_events() if event["event"] == "snapshot taken"]
        end = report["logEnd"]["offset"]
        # One that ends above the log is the leader's.
        written = [bytes_there for snapshot_id, bytes_there in parts_left(node).items() if snapshot_id.offset <= end]
        hit = None
        if written:
            hit = Hit(node.id, f"{written[0] * 100 // size} % of the snapshot were written")
        elif renamed and str(checkpoint_ids(renamed)[0]) not in taken:
            assert checkpoint_ids(renamed)[0] in snapshots_of(node)
            hit = Hit(node.id, "the snapshot had its name, and the node had not noted it")
        restart(quorum, node)
        return hit

    with BackgroundWriter(writer, PER_SECOND):
        collect(attempt)
    assert_states_are_what_was_written(quorum, writer)


@pytest.mark.rotating(5)
def test_killed_while_the_log_is_trimmed(quorum: Quorum, writer: KeyedWriter) -> None:
    victims = cycle(quorum.nodes.values())
    stages = cycle([(Change.RENAMED_TO, 1), (Change.RENAMED_TO, 8), (Change.REMOVED, 1), (Change.RENAMED_TO, 3)])

    def attempt() -> Hit | None:
        node, (change, number) = next(victims), next(stages)
        seen: list[str] = []

        def wanted(event: Event) -> bool:
            if event.change is change and event.name.endswith(LOG + DELETED):
                seen.append(event.name)
            return len(seen) == number

        with DirectoryEvents(node.partition_directory) as events:
            kill_when(node, events, wanted)
        [report] = verified([node])
        left = deleted_files(node)
        assert report["logStartOffset"] <= min(snapshot_id.offset for snapshot_id in snapshots_of(node))
        restart(quorum, node)
        wait_until("what was dropped is removed", lambda: not set(left) & set(names_in(node)))
        what = "removed" if change is Change.REMOVED else "renamed"
        return Hit(node.id, f"{number} segments {what}, {len(left)} files yet to be removed") if left else None

    with BackgroundWriter(writer, PER_SECOND):
        collect(attempt)
    assert_states_are_what_was_written(quorum, writer)


@pytest.mark.rotating(5)
def test_killed_while_a_fetched_snapshot_replaces_the_log(quorum: Quorum, writer: KeyedWriter) -> None:
    node = quorum.nodes[quorum.leader().id % 3 + 1]
    size = snapshot_bytes(quorum)
    stages = cycle(["0.6", "replacing", "0.0", "renamed", "0.3", "0.9"])
    node.kill()

    def attempt() -> Hit | None:
        [report] = verified([node])
        # What it has of a snapshot that was to take the log's place, it need not fetch again.
        end = max(report["logEnd"]["offset"], newest_offset(node))
        wait_until(f"the logs are trimmed past {end}", lambda: is_trimmed_past(quorum, end), 2 * WAIT_SECONDS)
        stage = next(stages)

        def is_renamed(event: Event) -> bool:
            return event.change is Change.RENAMED_TO and any(
                snapshot_id.offset > end for snapshot_id in checkpoint_ids([event.name])
            )

        def is_replaced(event: Event) -> bool:
            return event.change is Change.RENAMED_TO and event.name.endswith(LOG + DELETED)

        wanted = {"renamed": is_renamed, "replacing": is_replaced}.get(stage)
        with DirectoryEvents(node.partition_directory) as events:
            node.start()
            kill_when(node, events, wanted or part_grows_to(node, int(float(stage) * size), above=end))
        started = [event["event"] for event in node.log_events()]
        assert "node started" in started, started
        [report] = verified([node])
        for snapshot_id, bytes_there in parts_left(node).items():
            if snapshot_id.offset > report["logEnd"]["offset"]:
                return Hit(node.id, f"{bytes_there * 100 // size} % of the snapshot were there")
        newest = snapshots_of(node)[-1]
        if str(newest) in named_by_leader(node) and newest not in installed(node):
            left = len(deleted_files(node))
            return Hit(node.id, f"all of the snapshot was there, {left} files of the log had given way to it")
        return None

    with BackgroundWriter(writer, PER_SECOND):
        collect(attempt)
        restart(quorum, node)
    assert log_start_of(node) > 0
    assert_states_are_what_was_written(quorum, writer)
