"""What a leader had alone when it was lost, and what a producer repeats to its successor."""

from __future__ import annotations

import json

import pytest

from harness.node import NodeProcess
from harness.quorum import NO_TOPIC_ID, PRODUCE_BY_NAME, QUICK, TOPIC, Quorum
from harness.raw_connection import RawConnection
from harness.waiting import wait_until
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.api import INIT_PRODUCER_ID, PRODUCE
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.readers import read_with_confluent
from tests.acceptance.rounds import ROUNDS


def produce_request(value: str) -> ProduceRequest:
    batch = encode_batch([NewRecord(value.encode())], timestamp_ms=0)
    return ProduceRequest(-1, 20000, (ProducePartition(TOPIC, NO_TOPIC_ID, 0, batch),))


def others(quorum: Quorum, node: NodeProcess) -> list[NodeProcess]:
    return [other for other in quorum.nodes.values() if other is not node]


def append_without_commit(leader: NodeProcess, value: str, connection: RawConnection) -> None:
    """Returns when the record is in the leader's log, which nobody answers for."""
    before = len(leader.log_bytes())
    connection.send_request(PRODUCE, produce_request(value), PRODUCE_BY_NAME)
    wait_until("the record is in the leader's log", lambda: len(leader.log_bytes()) > before)


@pytest.mark.rotating(5)
def test_a_killed_leader_truncates_what_it_alone_had(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(is_steady=True)
    quorum.start()
    quorum.produce(["before"])
    quorum.wait_until_caught_up()
    old = quorum.leader()
    for follower in others(quorum, old):
        follower.pause()
    with RawConnection(old.endpoint) as connection:
        # The fetches that the followers had sent already are answered with this one, so the next one is the leader's.
        append_without_commit(old, "perhaps", connection)
        append_without_commit(old, "lost", connection)
        old.kill()
        with pytest.raises(ConnectionError):
            connection.read_frame()
    for follower in others(quorum, old):
        follower.kill()
        follower.start([f"{key}={value}" for key, value in QUICK.items()])  # they miss the leader soon
    quorum.produce(["after"], besides=old.id)
    quorum.start([old.id])
    log = quorum.assert_logs_equal()
    assert b"lost" not in log
    values = [value for _, value in read_with_confluent(quorum.bootstrap_servers)]
    assert [value for value in values if value != "perhaps"] == ["before", "after"]
    assert "truncated" in [json.loads(line)["event"] for line in old.log_text().splitlines() if line.startswith("{")]


@pytest.mark.rotating(5)
def test_a_paused_leader_acknowledges_nothing_when_it_wakes(make_quorum: MakeQuorum) -> None:
    """Scenario S14: it has a write in hand, and a successor that it does not know of."""
    quorum = make_quorum()
    quorum.start()
    quorum.produce(["before"])
    old = quorum.leader()
    with RawConnection(old.endpoint, seconds=30) as connection:
        old.pause()
        version = connection.send_request(PRODUCE, produce_request("stale"), PRODUCE_BY_NAME)
        quorum.produce(["after"], besides=old.id)
        old.resume()
        answer = connection.read_response(PRODUCE, version).partitions[0]
    assert answer.error in (ErrorCode.not_leader_or_follower, ErrorCode.request_timed_out)
    assert b"stale" not in quorum.assert_logs_equal()
    assert [value for _, value in read_with_confluent(quorum.bootstrap_servers)] == ["before", "after"]


def five_from(base_sequence: int) -> dict[str, int]:
    """The batch fields of producer 5 at that sequence."""
    return {"producer_id": 5, "producer_epoch": 0, "base_sequence": base_sequence}


@pytest.mark.rotating(5)
def test_a_repeated_batch_is_recognized_by_every_later_leader(make_quorum: MakeQuorum) -> None:
    """Producer id, epoch and sequence are known from the log's own batches, by successors and after restarts."""
    quorum = make_quorum()
    quorum.start()
    batches = [
        encode_batch([NewRecord(b"one"), NewRecord(b"two")], timestamp_ms=0, **five_from(sequence))
        for sequence in (0, 2, 4)
    ]
    offsets = [quorum.produce_batch(batch).base_offset for batch in batches]
    assert 0 <= offsets[0] <= offsets[1] - 2 <= offsets[2] - 4

    def repeat() -> None:
        for batch, offset in zip(batches, offsets, strict=True):
            answer = quorum.produce_batch(batch)
            assert (answer.error, answer.base_offset) == (ErrorCode.none, offset)
        gap = quorum.produce_batch(encode_batch([NewRecord(b"x")], timestamp_ms=0, **five_from(9)))
        assert gap.error is ErrorCode.out_of_order_sequence_number

    for _ in range(ROUNDS):
        old = quorum.leader()
        old.kill()
        quorum.leader(besides=old.id)
        repeat()
        quorum.start([old.id])
    quorum.wait_until_caught_up()
    quorum.kill_all()
    quorum.start()
    repeat()
    assert len(read_with_confluent(quorum.bootstrap_servers)) == 6


@pytest.mark.rotating(5)
def test_producer_ids_are_unique_across_leaders_and_restarts(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum()
    quorum.start()
    given: list[int] = []

    def ask_in_one_epoch() -> bool:
        before = quorum.caught_up(quorum.nodes)
        log = quorum.nodes[1].log_bytes()
        errors = []
        for node in list(quorum.nodes.values()) * 3:
            with RawConnection(node.endpoint) as connection:
                answer = connection.request(INIT_PRODUCER_ID, InitProducerIdRequest())
            errors.append(answer.error)
            if answer.error is ErrorCode.none:
                assert answer.producer_epoch == 0
                given.append(answer.producer_id)
        log_after = quorum.nodes[1].log_bytes()
        if before is None or quorum.described_by_leader()[1].leader_epoch != before.epoch:
            return False
        if ErrorCode.not_leader_or_follower in errors:  # a follower missed its leader and lost the pre-vote
            return False
        assert set(errors) == {ErrorCode.none}
        assert log_after == log, "an id costs no write to the log"
        return True

    def ask_every_node() -> None:
        wait_until("every node gives ids while one leader leads", ask_in_one_epoch)

    ask_every_node()
    old = quorum.leader()
    old.kill()
    quorum.leader(besides=old.id)
    quorum.start([old.id])
    ask_every_node()
    quorum.kill_all()
    quorum.start()
    ask_every_node()
    assert len(set(given)) == len(given) >= 27
