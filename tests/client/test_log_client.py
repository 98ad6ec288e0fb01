"""The log client against a quorum that fails in every way: each value in the log once, in order, or a clear error."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from scripted_quorum import TOPIC, Fault, ScriptedQuorum, cut, hang
from trio.testing import MockClock, wait_all_tasks_blocked

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.log_client import LogClient
from kraft_trio.errors import (
    ClientClosedError,
    EncodeError,
    NetworkError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    RecordTooLargeError,
    RefusedError,
)
from kraft_trio.protocol.types import Endpoint
from kraft_trio.storage.batches.batch import NewRecord, decode_records, peek_header
from kraft_trio.storage.batches.batch_header import Compression
from kraft_trio.wire.error_codes import ErrorCode
from tests.support import bombs


def client_of(quorum: ScriptedQuorum, network: object, **settings: object) -> LogClient:
    return LogClient(
        quorum.bootstrap,
        topic_name=TOPIC,
        network=network,  # type: ignore[arg-type]
        random_source=random.Random(1),
        wall_clock_ms=lambda: 1234,
        **settings,  # type: ignore[arg-type]
    )


def values_in(quorum: ScriptedQuorum) -> list[bytes | None]:
    """The values in the scripted quorum's log, in order."""
    return [
        record.value
        for batch in quorum.batches
        if not (header := peek_header(batch)).is_control
        for record in decode_records(batch, 0, header)
    ]


class TestProduce:
    async def test_offsets_of_committed_values_in_order(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        quorum.append_control()
        async with quorum.running() as network, client_of(quorum, network) as client:
            assert await client.produce([b"a", b"b"]) == (1, 2)
            assert await client.produce([b"c"]) == (3,)
        assert values_in(quorum) == [b"a", b"b", b"c"]
        first, second = map(peek_header, quorum.batches[1:])
        assert (first.producer_id, first.base_sequence, first.base_timestamp_ms) == (1, 0, 1234)
        assert (second.producer_id, second.base_sequence) == (1, 2)

    async def test_nothing_to_append_asks_nobody(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        async with quorum.running() as network, client_of(quorum, network) as client:
            assert await client.produce([]) == ()
        assert quorum.asked == []

    @pytest.mark.parametrize("leader_id", [1, 2, 3])
    async def test_the_leader_is_found_from_any_node(self, autojump_clock: MockClock, leader_id: int) -> None:
        quorum = ScriptedQuorum(leader_id=leader_id)
        async with quorum.running() as network:
            client = LogClient([quorum.bootstrap[0]], topic_name=TOPIC, network=network)
            async with client:
                assert await client.produce([b"a"]) == (0,)
        assert {id for id, name in quorum.asked if name == "Produce"} == {leader_id}

    @pytest.mark.parametrize(
        ("faults", "late_faults"),
        [
            ([cut], []),
            ([cut, cut, cut], []),
            ([], [cut]),
            ([hang], []),
            ([], [hang]),
            ([ErrorCode.not_leader_or_follower], []),
            ([], [ErrorCode.not_leader_or_follower]),
            ([], [ErrorCode.request_timed_out, ErrorCode.request_timed_out]),
            ([ErrorCode.leader_not_available, cut], [cut, hang]),
        ],
    )
    async def test_an_append_tried_again_takes_effect_once(
        self, autojump_clock: MockClock, faults: list[Fault | None], late_faults: list[Fault | None]
    ) -> None:
        quorum = ScriptedQuorum()
        quorum.faults.extend(faults)
        quorum.late_faults.extend(late_faults)
        async with quorum.running() as network, client_of(quorum, network) as client:
            assert await client.produce([b"a", b"b"]) == (0, 1)
            assert await client.produce([b"c"]) == (2,)
        assert values_in(quorum) == [b"a", b"b", b"c"]
        assert not quorum.faults
        assert not quorum.late_faults

    async def test_a_change_of_the_leader_is_followed(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(leader_id=1)

        async def move() -> None:
            quorum.leader_id = 3
            quorum.take_down(1)
            await cut()

        async with quorum.running() as network, client_of(quorum, network) as client:
            assert await client.produce([b"a"]) == (0,)
            quorum.faults.append(move)
            assert await client.produce([b"b"]) == (1,)
        assert [id for id, name in quorum.asked if name == "Produce"] == [1, 1, 3]
        assert values_in(quorum) == [b"a", b"b"]

    async def test_a_node_that_no_longer_leads_is_left(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(leader_id=1)
        async with quorum.running() as network, client_of(quorum, network) as client:
            assert await client.produce([b"a"]) == (0,)
            reader = client.read(0)
            assert (await anext(reader)).value == b"a"
            quorum.leader_id = 2
            assert await client.produce([b"b"]) == (1,)
            assert (await anext(reader)).value == b"b"
        assert [id for id, name in quorum.asked if name == "Produce"] == [1, 1, 2]
        assert [id for id, name in quorum.asked if name == "Fetch"][-1] == 2

    async def test_a_quorum_without_a_leader_is_waited_for(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(leader_id=None)
        async with quorum.running() as network, client_of(quorum, network) as client:
            async with trio.open_nursery() as nursery:

                async def elect() -> None:
                    await trio.sleep(3)
                    quorum.leader_id = 2

                nursery.start_soon(elect)
                assert await client.produce([b"a"]) == (0,)
            assert trio.current_time() >= 3

    async def test_no_leader_in_time_says_why_and_appends_nothing(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(leader_id=None, down={3})
        async with quorum.running() as network, client_of(quorum, network) as client:
            with pytest.raises(NetworkError) as failure:
                await client.produce([b"a"], timeout_ms=1000)
            assert trio.current_time() == pytest.approx(1)
        assert "node-1:9093: knows no leader" in str(failure.value)
        assert "node-3:9093: Connection refused" in str(failure.value)
        assert values_in(quorum) == []

    @pytest.mark.parametrize("late_fault", [hang, cut])
    async def test_a_fate_that_stays_unknown_is_said_to_be(self, autojump_clock: MockClock, late_fault: Fault) -> None:
        quorum = ScriptedQuorum()
        quorum.late_faults.extend([late_fault] * 1000)
        async with quorum.running() as network, client_of(quorum, network) as client:
            with pytest.raises(OutcomeUnknownError, match="sent, but not confirmed in time"):
                await client.produce([b"a"], timeout_ms=3000)
            quorum.late_faults.clear()
            assert await client.produce([b"b"]) == (1,)
        assert values_in(quorum) == [b"a", b"b"]
        first, second = map(peek_header, quorum.batches)
        assert first.producer_id != second.producer_id
        assert second.base_sequence == 0

    async def test_the_time_in_the_queue_counts(self, autojump_clock: MockClock) -> None:
        """And what was not sent is not said to be."""
        quorum = ScriptedQuorum()
        async with quorum.running() as network, client_of(quorum, network) as client, trio.open_nursery() as nursery:
            await client.produce([b"first"])
            quorum.faults.extend([hang] * 1000)

            async def slow() -> None:
                with pytest.raises(OutcomeUnknownError):
                    await client.produce([b"slow"], timeout_ms=5000)

            nursery.start_soon(slow)
            await wait_all_tasks_blocked()
            began = trio.current_time()
            with pytest.raises(NetworkError, match="not sent in time"):
                await client.produce([b"quick"], timeout_ms=100)
            assert trio.current_time() - began == pytest.approx(0.1)

    async def test_no_batch_is_sent_after_the_time(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        async with quorum.running() as network, client_of(quorum, network) as client:
            await client.produce([b"first"])
            with pytest.raises(NetworkError, match="not sent: the deadline had passed already"):
                await client.produce([b"late"], timeout_ms=0)
            assert await client.produce([b"again"]) == (1,)
        assert {peek_header(batch).producer_id for batch in quorum.batches} == {
            peek_header(quorum.batches[0]).producer_id
        }

    @pytest.mark.parametrize(
        ("code", "error"),
        [
            (ErrorCode.message_too_large, RecordTooLargeError),
            (ErrorCode.invalid_record, RefusedError),
            (ErrorCode.corrupt_message, RefusedError),
            (ErrorCode.topic_authorization_failed, RefusedError),
            (ErrorCode.unknown_server_error, OutcomeUnknownError),
        ],
    )
    async def test_a_refusal_is_an_error_that_names_it(
        self, autojump_clock: MockClock, code: ErrorCode, error: type[Exception]
    ) -> None:
        quorum = ScriptedQuorum()
        quorum.faults.append(code)
        async with quorum.running() as network, client_of(quorum, network) as client:
            with pytest.raises(error, match=f"append: Produce: {code.name}: as scripted"):
                await client.produce([b"a"])
        assert values_in(quorum) == []

    async def test_refused_after_an_unanswered_attempt_is_unknown(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        quorum.late_faults.append(cut)
        quorum.faults.extend([None, ErrorCode.out_of_order_sequence_number])
        async with quorum.running() as network, client_of(quorum, network) as client:
            with pytest.raises(OutcomeUnknownError, match="out_of_order_sequence_number"):
                await client.produce([b"a"])
        assert values_in(quorum) == [b"a"]

    @pytest.mark.parametrize("code", [ErrorCode.unknown_producer_id, ErrorCode.invalid_producer_epoch])
    async def test_a_forgotten_producer_begins_anew(self, autojump_clock: MockClock, code: ErrorCode) -> None:
        quorum = ScriptedQuorum()
        async with quorum.running() as network, client_of(quorum, network) as client:
            await client.produce([b"a"])
            quorum.faults.append(code)
            assert await client.produce([b"b"]) == (1,)
        assert [(peek_header(batch).producer_id, peek_header(batch).base_sequence) for batch in quorum.batches] == [
            (1, 0),
            (2, 0),
        ]

    async def test_a_cancelled_append_keeps_its_sequence_numbers(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        quorum.late_faults.append(hang)
        async with quorum.running() as network, client_of(quorum, network) as client:
            with trio.move_on_after(1) as scope:
                await client.produce([b"a"])
            assert scope.cancelled_caught
            assert await client.produce([b"b"]) == (1,)
        assert values_in(quorum) == [b"a", b"b"]

    async def test_concurrent_appends_keep_their_values_together(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        groups = [[b"%d-%d" % (task, index) for index in range(3)] for task in range(5)]
        offsets: list[tuple[int, ...]] = []

        async def append(client: LogClient, values: Sequence[bytes]) -> None:
            offsets.append(await client.produce(values))

        async with quorum.running() as network, client_of(quorum, network) as client:
            async with trio.open_nursery() as nursery:
                for group in groups:
                    nursery.start_soon(append, client, group)
        assert sorted(offset for group in offsets for offset in group) == list(range(15))
        log = values_in(quorum)
        assert sorted(log[at : at + 3] for at in range(0, 15, 3)) == groups  # type: ignore[type-var]

    async def test_values_are_split_at_the_batch_limit(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        values = [bytes(40), bytes(41), bytes(100), b"x"]
        async with quorum.running() as network, client_of(quorum, network, max_batch_bytes=61 + 21 * 2 + 81) as client:
            assert await client.produce(values) == (0, 1, 2, 3)
        assert [peek_header(batch).record_count for batch in quorum.batches] == [2, 1, 1]
        assert all(len(batch) <= 61 + 21 * 2 + 81 for batch in quorum.batches)
        assert values_in(quorum) == values

    async def test_keys_headers_and_times_count_for_the_limit(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        records = [
            NewRecord(bytes(20), bytes(10), (("ä" * 5, bytes(30)), ("b", None)), 2**40 * index) for index in range(6)
        ]
        async with quorum.running() as network, client_of(quorum, network, max_batch_bytes=300) as client:
            await client.produce(records)
            with pytest.raises(RecordTooLargeError, match=r"values\[0\]: 260 bytes do not fit a batch of 300"):
                await client.produce([NewRecord(b"", bytes(250))])
        assert len(quorum.batches) > 1
        assert all(len(batch) <= 300 for batch in quorum.batches)

    async def test_a_value_over_the_limit_appends_nothing(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        async with quorum.running() as network, client_of(quorum, network, max_batch_bytes=200) as client:
            with pytest.raises(RecordTooLargeError, match=r"values\[1\]: 150 bytes do not fit a batch of 200"):
                await client.produce([b"a", bytes(150)])
        assert quorum.asked == []

    async def test_another_topic_than_the_quorums(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum(topic_name="other")
        async with quorum.running() as network, client_of(quorum, network) as client:
            with pytest.raises(NetworkError, match="topic events: unknown_topic_or_partition"):
                await client.produce([b"a"], timeout_ms=500)


class TestRead:
    async def fill(self, client: LogClient, quorum: ScriptedQuorum) -> None:
        """Offsets: 0 control, 1-2 a b, 3 control, 4 c."""
        quorum.append_control()
        await client.produce([b"a", b"b"])
        quorum.append_control()
        await client.produce([b"c"])

    @pytest.mark.parametrize(
        ("from_offset", "until", "expected"),
        [
            (0, 5, [(1, b"a"), (2, b"b"), (4, b"c")]),
            (2, 5, [(2, b"b"), (4, b"c")]),
            (3, 4, []),
            (1, 2, [(1, b"a")]),
            (4, 5, [(4, b"c")]),
            (5, 5, []),
            (5, 2, []),
        ],
    )
    async def test_from_and_until(
        self, autojump_clock: MockClock, from_offset: int, until: int, expected: list[tuple[int, bytes]]
    ) -> None:
        quorum = ScriptedQuorum()
        async with quorum.running() as network, client_of(quorum, network) as client:
            await self.fill(client, quorum)
            assert [(record.offset, record.value) async for record in client.read(from_offset, until)] == expected

    async def test_what_is_not_there_yet_is_waited_for(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        seen: list[bytes | None] = []
        async with quorum.running() as network, client_of(quorum, network) as client:
            async with trio.open_nursery() as nursery:

                async def read() -> None:
                    seen.extend([record.value async for record in client.read(0, until=2)])

                nursery.start_soon(read)
                await trio.sleep(60)
                assert seen == []
                await client.produce([b"a"])
                await client.produce([b"b"])
        assert seen == [b"a", b"b"]

    @pytest.mark.parametrize(
        "fault",
        [cut, hang, ErrorCode.not_leader_or_follower, ErrorCode.offset_not_available, ErrorCode.unknown_topic_id],
    )
    async def test_reading_goes_on_where_it_was_interrupted(self, autojump_clock: MockClock, fault: Fault) -> None:
        quorum = ScriptedQuorum()
        async with quorum.running() as network, client_of(quorum, network) as client:
            await self.fill(client, quorum)
            quorum.fetch_faults.extend([None, fault, None, fault])
            assert [record.value async for record in client.read(0, until=5)] == [b"a", b"b", b"c"]
        assert not quorum.fetch_faults

    @pytest.mark.parametrize("from_offset", [0, 100])
    async def test_an_offset_that_is_not_in_the_log(self, autojump_clock: MockClock, from_offset: int) -> None:
        quorum = ScriptedQuorum(log_start_offset=1)
        async with quorum.running() as network, client_of(quorum, network) as client:
            await self.fill(client, quorum)
            with pytest.raises(
                OffsetOutOfRangeError,
                match=rf"^offset {from_offset} is not in the log, which begins at 1 and is committed to 5$",
            ):
                await anext(client.read(from_offset))

    async def test_a_refusal_ends_the_reading(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        quorum.fetch_faults.append(ErrorCode.topic_authorization_failed)
        async with quorum.running() as network, client_of(quorum, network) as client:
            with pytest.raises(RefusedError, match="read from offset 0: Fetch: TOPIC_AUTHORIZATION_FAILED"):
                await anext(client.read())

    async def test_a_negative_offset(self, autojump_clock: MockClock) -> None:
        with pytest.raises(ValueError, match="from_offset: -1, expected 0 or more"):
            LogClient([Endpoint("h", 1)]).read(-1)

    async def test_mistaken_arguments_get_a_sentence(self) -> None:
        text: Any = "5"
        client = LogClient([Endpoint("h", 1)])
        with pytest.raises(TypeError, match="from_offset: '5', expected an offset"):
            client.read(text)
        with pytest.raises(TypeError, match="until: '5', expected an offset or None"):
            client.read(0, text)
        with pytest.raises(TypeError, match="timeout_ms: '5', expected a number from 0 to"):
            await client.produce([b"value"], text)

    async def test_a_reader_that_was_closed_has_ended(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        async with quorum.running() as network, client_of(quorum, network) as client:
            await self.fill(client, quorum)
            reader = client.read(0)
            assert (await anext(reader)).value == b"a"
            await reader.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(reader)


async def test_the_client_leaves_no_connection_open(autojump_clock: MockClock) -> None:
    quorum = ScriptedQuorum()
    async with quorum.running() as network:
        async with client_of(quorum, network) as client:
            await client.produce([b"a", b"b"])
            async for _ in client.read(0):
                break
            assert quorum.open_connections == 2
        await wait_all_tasks_blocked()
        assert quorum.open_connections == 0


@pytest.mark.parametrize("where", ["before it is sent", "when it was sent", "while reading"])
async def test_a_client_that_is_closed_during_a_call(autojump_clock: MockClock, where: str) -> None:
    """The call ends with what is known, and makes no other connection."""
    quorum = ScriptedQuorum()
    outcomes: list[BaseException] = []

    async def call(client: LogClient) -> None:
        try:
            if where == "while reading":
                await anext(client.read(1))
            else:
                await client.produce([b"a"])
        except (ClientClosedError, OutcomeUnknownError, StopAsyncIteration) as error:
            outcomes.append(error)

    async with quorum.running() as network, trio.open_nursery() as nursery:
        client = client_of(quorum, network)
        if where == "before it is sent":
            quorum.leader_id = None
        else:
            await client.produce([b"first"])
        quorum.late_faults.extend([hang] * 1000)
        quorum.fetch_faults.extend([hang] * 1000)
        nursery.start_soon(call, client)
        await wait_all_tasks_blocked()
        before = len(quorum.asked)
        await client.aclose()
        await trio.sleep(60)
        assert len(quorum.asked) == before
        assert len(outcomes) == 1
    expected = {"before it is sent": ClientClosedError, "when it was sent": OutcomeUnknownError}
    assert isinstance(outcomes[0], expected.get(where, StopAsyncIteration))


async def test_a_closed_client_refuses_calls(autojump_clock: MockClock) -> None:
    quorum = ScriptedQuorum()
    async with quorum.running() as network:
        async with client_of(quorum, network) as client:
            reader = client.read(0)
        await client.aclose()
        with pytest.raises(ClientClosedError, match="produce: the client is closed"):
            await client.produce([b"a"])
        with pytest.raises(ClientClosedError, match="read: the client is closed"):
            client.read(0)
        with pytest.raises(StopAsyncIteration):
            await anext(reader)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (b"a", TypeError, "values: bytes, expected a list of values"),
        (NewRecord(b"a"), TypeError, "values: NewRecord, expected a list of values"),
        ([b"a", "b"], EncodeError, "value: str given, bytes or None expected"),
        ([NewRecord(b"a", key="k")], EncodeError, "key: str given, bytes or None expected"),  # type: ignore[arg-type]
    ],
)
async def test_values_of_another_type_are_refused(
    values: Any, error: type[Exception], message: str, autojump_clock: MockClock
) -> None:
    quorum = ScriptedQuorum()
    async with quorum.running() as network, client_of(quorum, network) as client:
        with pytest.raises(error, match=message):
            await client.produce(values)
    assert quorum.open_connections == 0


def test_a_client_needs_somewhere_to_begin() -> None:
    with pytest.raises(ValueError, match="bootstrap: no endpoint given"):
        LogClient([])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a", r"bootstrap: 'a': 'a' has no port"),
        (["a:1", "b"], r"bootstrap: \['a:1', 'b'\]: 'b' has no port"),
        (Endpoint("a", 1), r"bootstrap: Endpoint\(.*\); expected endpoints or host:port"),
        ([("a", 1)], r"bootstrap: \[\('a', 1\)\]; expected endpoints or host:port"),
        (5, "bootstrap: 5; expected endpoints or host:port"),
    ],
)
def test_something_else_than_endpoints_gets_a_sentence(given: object, said: str) -> None:
    for client in (LogClient, AdminClient):
        with pytest.raises(ValueError, match=said):
            client(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["a:1,b:2", ["a:1", "b:2"], ("a:1", Endpoint("b", 2))])
def test_endpoints_may_be_given_as_texts(given: Any) -> None:
    assert AdminClient(given)._finder.bootstrap == (Endpoint("a", 1), Endpoint("b", 2))


class TestLargeBatches:
    async def test_records_of_a_bomb_come_a_few_at_a_time(self, autojump_clock: MockClock) -> None:
        quorum = ScriptedQuorum()
        quorum.append_control()
        quorum.batches.append(bombs.tiny_records(Compression.ZSTD, 20_000))
        async with quorum.running() as network, client_of(quorum, network) as client:
            reader = client.read(0)
            offsets = [(await anext(reader)).offset for _ in range(10_000)]
            assert offsets == list(range(offsets[0], offsets[0] + 10_000))
            assert len(reader._ready) < 1000  # type: ignore[attr-defined]
