"""A follower and a blank observer that are too far behind come back by snapshot and log, with processes and clients.

KRAFT_ACCEPTANCE_RECORDS says how many records are written, by default few.
"""

from __future__ import annotations

import os

import pytest

from harness.node import NodeProcess
from harness.waiting import WAIT_SECONDS, wait_until
from kraft_trio.protocol.types import OffsetAndEpoch
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.keyed_writer import RECORD_BYTES, BackgroundWriter, KeyedWriter
from tests.acceptance.stateful_quorum import (
    Sizes,
    assert_states_are_what_was_written,
    installed,
    let_fall_behind,
    make_stateful_quorum,
)
from tests.acceptance.tallied_values import NAME
from tests.support import sizes

RECORDS = int(os.environ.get("KRAFT_ACCEPTANCE_RECORDS", "20000" if sizes.IS_ALL else "10000"))


def snapshot_and_log(node: NodeProcess, writer: KeyedWriter) -> OffsetAndEpoch:
    """Start the node while others are written to; the snapshot that took its log's place, behind which there is log."""
    with BackgroundWriter(writer, per_second=RECORDS // 10) as writing:
        node.start()
        wait_until(f"node {node.id} has a snapshot in place of its log", lambda: installed(node), 2 * WAIT_SECONDS)
        by_snapshot = installed(node)[-1]
        sent = writer.sent
        wait_until("more is written", lambda: writer.sent >= sent + RECORDS // 20)
        writing.check()
    return by_snapshot


@pytest.mark.rotating(3)
@pytest.mark.parametrize("state_machine", [NAME, "latest-by-key"])
def test_follower_and_observer_catch_up_by_snapshot_and_log(make_quorum: MakeQuorum, state_machine: str) -> None:
    quorum = make_stateful_quorum(
        make_quorum, Sizes.for_log_of(RECORDS * RECORD_BYTES), voters=3, observers=1, kraft_state_machine=state_machine
    )
    quorum.start(quorum.voter_ids)
    writer = KeyedWriter("w", quorum.bootstrap_servers, keys=RECORDS // 100)
    writer.write(RECORDS // 4)
    writer.flush()
    follower = quorum.nodes[quorum.leader().id % 3 + 1]
    observer = quorum.nodes[4]
    behind = let_fall_behind(quorum, follower, writer, RECORDS // 20)
    by_snapshot = {node.id: snapshot_and_log(node, writer) for node in (follower, observer)}
    assert behind < by_snapshot[follower.id].offset
    writer.write(max(0, RECORDS - writer.sent))
    end = assert_states_are_what_was_written(quorum, writer, tally=state_machine == NAME)
    for node in (follower, observer):
        assert by_snapshot[node.id].offset < end.offset, f"node {node.id} had nothing to fetch after its snapshot"
