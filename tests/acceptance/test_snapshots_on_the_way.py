"""What happens while a snapshot is on its way to a replica: the leader dies, voters change, a producer repeats itself.

The replica is paused when a part of the snapshot is there, so that what is to happen meanwhile does.
"""

from __future__ import annotations

import shutil
from uuid import UUID

import pytest

from harness.command import kraft
from harness.node import NodeProcess
from harness.quorum import Quorum
from harness.raw_connection import RawConnection
from harness.waiting import WAIT_SECONDS, wait_until
from kraft_trio.protocol.types import Endpoints, OffsetAndEpoch
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.storage.directory.directory import read_meta_properties
from kraft_trio.storage.disk.partition_files import CHECKPOINT, checkpoint_ids
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.wire.api import ADD_RAFT_VOTER
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.produce import ProducePartitionResponse
from kraft_trio.wire.error_codes import ErrorCode
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.directory_events import Change, DirectoryEvents
from tests.acceptance.keyed_writer import KeyedWriter
from tests.acceptance.snapshot_files import PART, control_state, log_start_of, size_of, snapshots_of
from tests.acceptance.stateful_quorum import (
    Sizes,
    assert_states_are_what_was_written,
    common_snapshot,
    installed,
    let_fall_behind,
    make_stateful_quorum,
)

KEYS = 5000
"""A snapshot has about a megabyte."""
SIZES = Sizes(retention=4_000_000, segment=100_000, between_snapshots=400_000)
PIECE_BYTES = 8 * 1024
HELD_BYTES = 100_000
STEP = 2000
REMOVE = ("remove-controller", "-i")


FETCH_TIMEOUT_MS = "6000"
"""A busy machine moves no leadership, and a killed leader is soon replaced."""


def made(make_quorum: MakeQuorum, observers: int = 0, **settings: str) -> tuple[Quorum, KeyedWriter]:
    """The voters run and have every key."""
    own = {
        "controller_quorum_fetch_snapshot_max_bytes": str(PIECE_BYTES),
        "controller_quorum_fetch_timeout_ms": FETCH_TIMEOUT_MS,
    }
    quorum = make_stateful_quorum(make_quorum, SIZES, 3, observers, **{**own, **settings})
    quorum.start(quorum.voter_ids)
    writer = KeyedWriter("w", quorum.bootstrap_servers, KEYS)
    writer.write(KEYS)
    writer.flush()
    return quorum, writer


def others_of(quorum: Quorum, *nodes: NodeProcess) -> list[NodeProcess]:
    return [node for node in quorum.nodes.values() if node not in nodes]


def start_and_hold(node: NodeProcess) -> OffsetAndEpoch | None:
    """Start the node and pause it when a part of a snapshot has come; which one.

    None if all of it came before the node was paused, as on a busy machine; the node is killed then.
    """
    # A node that was never started has none.
    node.partition_directory.mkdir(exist_ok=True)
    with DirectoryEvents(node.partition_directory) as events:
        node.start()
        for event in events.within(WAIT_SECONDS):
            is_whole = event.change is Change.RENAMED_TO and any(id.offset > 0 for id in checkpoint_ids([event.name]))
            if is_whole or (event.name.endswith(PART) and size_of(node, event.name) >= HELD_BYTES):
                node.pause()
                break
    if is_whole or size_of(node, event.name) < 0:
        node.kill()
        return None
    return checkpoint_ids([event.name.removesuffix(PART) + CHECKPOINT])[0]


def hold_behind(quorum: Quorum, node: NodeProcess, writer: KeyedWriter) -> OffsetAndEpoch:
    """Let the node fall behind, as often as it needs, until it is held while it fetches a snapshot; which one.

    Nothing is written while it fetches, and the others have the same newest snapshot: the one that it fetches.
    """
    running = [other.id for other in others_of(quorum, node) if other.running]

    def held() -> OffsetAndEpoch | None:
        let_fall_behind(quorum, node, writer, STEP)
        newest = common_snapshot(quorum, running)
        snapshot_id = start_and_hold(node)
        if snapshot_id not in (None, newest):  # a leader was elected meanwhile, and has appended a record
            node.kill()
            return None
        return snapshot_id

    return wait_until(f"node {node.id} is held while it fetches", held, 10 * WAIT_SECONDS)


def fetched(node: NodeProcess) -> list[tuple[OffsetAndEpoch, int]]:
    """Which snapshots the latest process was told to fetch, and how much of them it had then."""
    found = [event for event in node.log_events() if event["event"] == "fetching a snapshot"]
    return [(OffsetAndEpoch(*map(int, event["snapshot_id"].split("@"))), event["position"]) for event in found]


def wait_until_installed(node: NodeProcess) -> OffsetAndEpoch:
    wait_until(f"node {node.id} has a snapshot in place of its log", lambda: installed(node), 2 * WAIT_SECONDS)
    return installed(node)[0]


@pytest.mark.rotating(5)
def test_a_download_continues_with_the_next_leader(make_quorum: MakeQuorum) -> None:
    """Both have the snapshot, which is the same on all replicas."""
    quorum, writer = made(make_quorum)
    node = quorum.nodes[quorum.leader().id % 3 + 1]
    snapshot_id = hold_behind(quorum, node, writer)
    old = quorum.leader()
    old.kill()
    node.resume()
    # Nothing commits in the new epoch before the node is back, so that there can be no newer snapshot.
    assert wait_until_installed(node) == snapshot_id
    first, *later = fetched(node)
    assert first == (snapshot_id, 0)
    assert later
    assert all(again == snapshot_id and position >= HELD_BYTES for again, position in later), (
        "what had come from the leader that died was fetched again"
    )
    quorum.start([old.id])
    writer.write(STEP)
    assert_states_are_what_was_written(quorum, writer)


@pytest.mark.rotating(5)
def test_a_download_restarts_if_the_next_leader_has_a_newer_one(make_quorum: MakeQuorum) -> None:
    quorum, writer = made(make_quorum)
    node = quorum.nodes[quorum.leader().id % 3 + 1]
    held = hold_behind(quorum, node, writer)
    old = quorum.leader()
    [successor] = others_of(quorum, node, old)

    def has_a_newer_one() -> bool:
        writer.write(STEP)
        writer.flush()
        return snapshots_of(successor)[-1].offset > held.offset

    wait_until("the successor has a newer snapshot", has_a_newer_one)
    old.kill()
    node.resume()
    installed_id = wait_until_installed(node)
    assert installed_id.offset > held.offset
    assert fetched(node)[-1] == (installed_id, 0)
    assert "snapshot given up" in [event["event"] for event in node.log_events()]
    quorum.start([old.id])
    writer.write(STEP)
    assert_states_are_what_was_written(quorum, writer)


def formatted(quorum: Quorum, node: NodeProcess) -> NodeProcess:
    """The node on a new disk: the leader has heard nothing of it."""
    shutil.rmtree(node.directory)
    completed = quorum.format(node)
    assert completed.returncode == 0, completed.stderr
    return node


def voters_seen_by(quorum: Quorum) -> set[int]:
    """The leader's."""
    return {replica.key.id for replica in quorum.described_by_leader()[1].voters}


@pytest.mark.rotating(5)
def test_an_observer_becomes_a_voter_while_it_fetches_a_snapshot(make_quorum: MakeQuorum) -> None:
    """The snapshot that it gets has the voters of before the change; those of the log behind it are in force."""
    # Held for longer than the fetch timeout, the observer would begin again, with a newer snapshot.
    quorum, writer = made(make_quorum, observers=1, controller_quorum_fetch_timeout_ms="60000")
    leader, blank = quorum.leader(), quorum.nodes[4]
    removed, kept = others_of(quorum, leader, blank)

    def is_trimmed() -> bool:
        writer.write(STEP)
        writer.flush()
        return log_start_of(leader) > 0

    wait_until("the log is trimmed", is_trimmed)
    held = wait_until("the observer is held while it fetches", lambda: start_and_hold(formatted(quorum, blank)))
    change = kraft("metadata-quorum", "--bootstrap-controller", str(leader.endpoint), *REMOVE, str(removed.id))
    assert change.returncode == 0, change.stderr
    addition = AddRaftVoterRequest(
        quorum.cluster_id,
        int(2000 * WAIT_SECONDS),
        blank.id,
        directory_id_of(blank),
        Endpoints({"CONTROLLER": blank.endpoint}),
    )
    with RawConnection(leader.endpoint, 2 * WAIT_SECONDS) as connection:
        version = connection.send_request(ADD_RAFT_VOTER, addition)
        blank.resume()
        answer = connection.read_response(ADD_RAFT_VOTER, version)
    assert answer.error is ErrorCode.none, answer.error_message
    assert wait_until_installed(blank) == held
    assert installed(blank) == [held]
    assert voters_seen_by(quorum) == {leader.id, kept.id, blank.id}
    # Only with it is there a majority.
    quorum.wait_until_caught_up()
    kept.kill()
    writer.write(STEP)
    writer.flush()
    quorum.start([kept.id])
    snapshot_id = assert_states_are_what_was_written(quorum, writer)
    for node in quorum.nodes.values():
        voters = control_state(node, snapshot_id).voters
        assert voters is not None
        assert {voter.key.id for voter in voters} == {leader.id, kept.id, blank.id}


def directory_id_of(node: NodeProcess) -> UUID:
    properties = read_meta_properties(RealDisk(), str(node.directory))
    assert properties is not None
    return properties.directory_id


def make_leader(quorum: Quorum, node: NodeProcess) -> None:
    command = ["metadata-quorum", "--bootstrap-controller", str(node.endpoint), "transfer-leadership"]
    done = kraft(*command, "--to", str(node.id))
    assert done.returncode == 0, done.stderr
    assert quorum.leader() is node


@pytest.mark.rotating(5)
def test_a_leader_knows_a_repeated_batch_from_a_snapshot(make_quorum: MakeQuorum) -> None:
    quorum, writer = made(make_quorum)
    written: dict[int, tuple[bytes, bytes]] = {}

    def produce(sequence: int) -> ProducePartitionResponse:
        """As producer 5, one record a batch."""
        record = NewRecord(b"value %d" % sequence, key=b"five")
        batch = encode_batch([record], timestamp_ms=0, producer_id=5, producer_epoch=0, base_sequence=sequence)
        answer = quorum.produce_batch(batch)
        if answer.error is ErrorCode.none:
            written[answer.base_offset] = b"five", b"value %d" % sequence
        return answer

    node = quorum.nodes[quorum.leader().id % 3 + 1]
    first = produce(0)
    node.kill()
    second = produce(1)
    let_fall_behind(quorum, node, writer, STEP)
    node.start()
    assert first.base_offset < second.base_offset < wait_until_installed(node).offset
    make_leader(quorum, node)
    assert log_start_of(node) > second.base_offset
    again = produce(1)
    assert (again.error, again.base_offset) == (ErrorCode.none, second.base_offset)
    assert produce(0).error is ErrorCode.duplicate_sequence_number
    assert produce(3).error is ErrorCode.out_of_order_sequence_number
    assert produce(2).error is ErrorCode.none
    assert_states_are_what_was_written(quorum, writer, written)
