"""Quorums whose nodes have a state machine, take snapshots of it often, and trim their logs early."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping

import attrs

from harness.node import NodeProcess
from harness.quorum import Quorum
from harness.waiting import WAIT_SECONDS, wait_until
from kraft_trio.protocol.types import OffsetAndEpoch
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.keyed_writer import UNKNOWN_OFFSET, KeyedWriter
from tests.acceptance.snapshot_files import (
    PART,
    log_start_of,
    names_in,
    saved_state,
    snapshot_path,
    snapshots_of,
    verified,
)
from tests.acceptance.tallied_values import NAME, TALLY_KEY, Tally

SNAPSHOT_INTERVAL_MS = 2000
"""Replicas take snapshots by size, each at another offset.  Once writing stops, this interval makes all of them take
one with the same id."""


@attrs.frozen
class Sizes:
    """How large what a quorum keeps may become, in bytes."""

    retention: int
    segment: int
    between_snapshots: int

    @classmethod
    def for_log_of(cls, size_in_bytes: int) -> Sizes:
        """So that about an eighth of it is kept."""
        retention = size_in_bytes // 8
        return cls(retention, retention // 8, retention // 4)


def make_stateful_quorum(
    make_quorum: MakeQuorum, sizes: Sizes, voters: int = 3, observers: int = 0, **settings: str
) -> Quorum:
    """With TalliedValues, unless `kraft_state_machine` names another."""
    own = {
        "metadata_max_retention_bytes": str(sizes.retention),
        "metadata_log_segment_bytes": str(sizes.segment),
        "metadata_log_max_record_bytes_between_snapshots": str(sizes.between_snapshots),
        "metadata_log_max_snapshot_interval_ms": str(SNAPSHOT_INTERVAL_MS),
        "kraft_state_machine": NAME,
    }
    quorum: Quorum = make_quorum(voters, observers, **{**own, **settings})
    return quorum


def end_of_stopped(node: NodeProcess) -> int:
    """The end (exclusive) of its log, which is sound."""
    end: int = verified([node])[0]["logEnd"]["offset"]
    return end


def is_trimmed_past(quorum: Quorum, offset: int) -> bool:
    """Whether no running node has the record at `offset` in its log any more."""
    return all(log_start_of(node) > offset for node in quorum.nodes.values() if node.running)


def installed(node: NodeProcess) -> list[OffsetAndEpoch]:
    """The snapshots that took the log's place while the latest process ran."""
    texts = [event["snapshot_id"] for event in node.log_events() if event["event"] == "snapshot in place of the log"]
    return [OffsetAndEpoch(*map(int, text.split("@"))) for text in texts]


def common_snapshot(quorum: Quorum, node_ids: Collection[int] = ()) -> OffsetAndEpoch:
    """Nobody writes: wait until those nodes, by default all, have a snapshot of everything; its id, one for all.

    An election in between adds a record, and then a further snapshot is waited for.
    """
    nodes = [quorum.nodes[node_id] for node_id in (node_ids or quorum.nodes)]

    def newest() -> set[OffsetAndEpoch] | None:
        end = quorum.wait_until_caught_up(node_ids)
        found = {max(snapshots_of(node), default=OffsetAndEpoch(0, 0)) for node in nodes}
        return found if all(snapshot_id.offset == end for snapshot_id in found) else None

    ids = wait_until("all have a snapshot of everything", newest)
    assert len(ids) == 1, f"snapshots up to the same offset, of different epochs: {ids}"
    return ids.pop()


def stop_with_common_snapshot(quorum: Quorum) -> OffsetAndEpoch:
    """Nobody writes: kill all nodes when they have a snapshot of everything that their sound logs hold; its id."""

    def stopped() -> OffsetAndEpoch | None:
        snapshot_id = common_snapshot(quorum)
        quorum.kill_all()
        if {report["logEnd"]["offset"] for report in verified(quorum.nodes.values())} == {snapshot_id.offset}:
            return snapshot_id
        quorum.start()  # a leader was elected meanwhile, and has appended a record
        return None

    return wait_until("all stop with a snapshot of everything", stopped, 4 * WAIT_SECONDS)


def assert_states_are_what_was_written(
    quorum: Quorum, writer: KeyedWriter, others: Mapping[int, tuple[bytes, bytes]] | None = None, *, tally: bool = True
) -> OffsetAndEpoch:
    """Every node runs: all that was written and acknowledged is in every state, and nothing else is.

    `others` are keys and values by offset, next to what `writer` wrote.  With `tally` the state is TalliedValues',
    whose hash says that no record was applied twice or out of order.  The snapshots of the states are equal byte for
    byte, and so are the logs as far as they are kept.  Stops the nodes.  The id of the snapshot that was compared.
    """
    writer.flush()
    writer.assert_each_has_its_place()
    snapshot_id = stop_with_common_snapshot(quorum)
    assert writer.offsets[-1] < snapshot_id.offset
    expected = {**writer.latest_values(), **dict((others or {}).values())}
    if tally:
        expected[TALLY_KEY] = tally_of(writer, others or {}).encode()
    first = quorum.nodes[1]
    for node in quorum.nodes.values():
        state = saved_state(node, snapshot_id)
        assert state.values.keys() == expected.keys(), f"node {node.id}: other keys than were written"
        assert state.values == expected, f"node {node.id}: the state is not what was written"
        assert not [name for name in names_in(node) if name.endswith(PART)], "what a killed process left is still there"
        same = snapshot_path(node, snapshot_id).read_bytes() == snapshot_path(first, snapshot_id).read_bytes()
        assert same, f"nodes {first.id} and {node.id}: snapshots {snapshot_id} differ"
    assert_equal_where_both_have_it(quorum)
    assert_no_errors(quorum)
    return snapshot_id


def tally_of(writer: KeyedWriter, others: Mapping[int, tuple[bytes, bytes]]) -> Tally:
    """Of all records, in the order of their offsets; the writer's own are in the order of their numbers."""
    assert not others or UNKNOWN_OFFSET not in writer.offsets, "nobody knows what came before the others' records"
    own = ((offset, (writer.key(number), writer.value(number))) for number, offset in enumerate(writer.offsets))
    tally = Tally()
    for _, (key, value) in heapq.merge(own, sorted(others.items())) if others else own:
        tally = tally.after(key, value)
    return tally


def assert_equal_where_both_have_it(quorum: Quorum) -> None:
    """Every snapshot that two nodes have under the same id has the same bytes (invariant EqualStates)."""
    seen: dict[OffsetAndEpoch, tuple[NodeProcess, bytes]] = {}
    for node in quorum.nodes.values():
        for snapshot_id in snapshots_of(node):
            data = snapshot_path(node, snapshot_id).read_bytes()
            other, expected = seen.setdefault(snapshot_id, (node, data))
            assert data == expected, f"nodes {other.id} and {node.id}: snapshots {snapshot_id} differ"


def assert_no_errors(quorum: Quorum) -> None:
    """No process of any node ever logged an error."""
    for node in quorum.nodes.values():
        errors = [line for line in node.log_text().splitlines() if '"level": "error"' in line or "Traceback" in line]
        assert not errors, f"node {node.id}: {errors[:5]}"


def let_fall_behind(quorum: Quorum, node: NodeProcess, writer: KeyedWriter, step: int) -> int:
    """Kill the node and write, `step` records at a time, until nobody's log reaches back to its end; that end."""
    node.kill()
    end = end_of_stopped(node)

    def trimmed() -> bool:
        writer.write(step)
        writer.flush()
        return is_trimmed_past(quorum, end)

    wait_until(f"the logs are trimmed past {end}", trimmed, 4 * WAIT_SECONDS)
    return end
