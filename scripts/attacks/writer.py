"""The well-behaved client: it writes one record after the other for as long as an attack lasts, and reads them back."""

from __future__ import annotations

import time

from harness.quorum import NO_TOPIC_ID, PRODUCE_BY_NAME, TOPIC
from harness.raw_connection import RawConnection
from harness.waiting import wait_until
from kraft_trio.config.values import KEY_VALUE
from kraft_trio.errors import ProtocolError
from kraft_trio.kv.command_serde import CommandSerde
from kraft_trio.kv.requests import LeaseKeepAliveRequest
from kraft_trio.protocol.types import Endpoint
from kraft_trio.storage.batches.batch import NewRecord, decode_records, encode_batch, iter_headers
from kraft_trio.wire.api import API_VERSIONS, FETCH, INIT_PRODUCER_ID, PRODUCE
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchPartitionResponse, FetchRequest
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.error_codes import ErrorCode
from scripts.attacks.quorum import AttackedQuorum
from scripts.common.background import Background

FETCH_BY_NAME = 12
ANSWER_S = 5.0
BETWEEN_RECORDS_S = 0.005
"""So that the writer does not itself load the machine."""
KEYS = 50


class Writer(Background):
    """An idempotent producer in its own thread, which finds the leader among the client listeners."""

    join_s = 2 * ANSWER_S

    def __init__(self, quorum: AttackedQuorum) -> None:
        super().__init__("writer")
        self._quorum = quorum
        self._producer_id = -1
        self._sequence = 0
        self._node_id = 1
        self.acknowledged: list[tuple[int, bytes]] = []
        """Offset and value of every record that the leader has confirmed."""
        self.complaint = ""
        """What went wrong last."""

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with RawConnection(self._quorum.endpoints[self._node_id]["CLIENT"], ANSWER_S) as connection:
                    self._write_through(connection)
            except (OSError, ProtocolError) as error:
                self.complaint = f"node {self._node_id}: {error!r}"
            self._node_id = self._node_id % len(self._quorum.nodes) + 1
            self.stopping.wait(0.05)

    def _write_through(self, connection: RawConnection) -> None:
        """Until the node is no leader, or the connection ends."""
        if self._producer_id < 0:
            given = connection.request(INIT_PRODUCER_ID, InitProducerIdRequest())
            if given.error is not ErrorCode.none:
                self.complaint = f"node {self._node_id}: no producer id: {given.error.name}"
                return
            self._producer_id, self._sequence = given.producer_id, 0
        while not self.stopping.wait(BETWEEN_RECORDS_S):
            value = self._value()
            batch = encode_batch(
                [NewRecord(value, key=b"%d" % (self._sequence % KEYS))],
                timestamp_ms=int(time.time() * 1000),
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=self._sequence,
            )
            request = ProduceRequest(-1, 4000, (ProducePartition(TOPIC, NO_TOPIC_ID, 0, batch),))
            [answer] = connection.request(PRODUCE, request, PRODUCE_BY_NAME).partitions
            if answer.error is ErrorCode.none:
                self.acknowledged.append((answer.base_offset, value))
                self._sequence += 1
                continue
            self.complaint = f"node {self._node_id}: {answer.error.name} {answer.error_message or ''}"
            if answer.error in (ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id):
                self._producer_id = -1
            return

    def _value(self) -> bytes:
        """A record's value: a command that changes nothing if the key-value store reads it."""
        if self._quorum.settings.get("kraft.state.machine") == KEY_VALUE:
            return CommandSerde().encode(LeaseKeepAliveRequest((self._producer_id % 2**30 << 32) + self._sequence))
        return b"%d of %d" % (self._sequence, self._producer_id)


def lost_records(quorum: AttackedQuorum, leader_id: int, records: list[tuple[int, bytes]]) -> int:
    """Count the acknowledged records missing from the leader's log, except those that it has trimmed."""
    if not records:
        return 0
    wanted = dict(records)
    position, end = min(wanted), max(wanted)
    with _connected(quorum.endpoints[leader_id]["CLIENT"]) as connection:
        while position <= end:
            answer = _fetch(connection, position)
            if answer.error is ErrorCode.offset_out_of_range:
                start = max(position + 1, answer.log_start_offset)
                wanted = {offset: value for offset, value in wanted.items() if offset >= start}
                position = start
                continue
            assert answer.error is ErrorCode.none, answer.error
            before = position
            for at, header in iter_headers(answer.records):
                position = header.base_offset + header.last_offset_delta + 1
                if header.base_offset in wanted and header.last_offset_delta == 0:
                    [record] = decode_records(answer.records, at, header)
                    if wanted[record.offset] == record.value:
                        del wanted[record.offset]
            assert position > before, f"nothing to be read at offset {position} below {end}"
    return len(wanted)


def _connected(endpoint: Endpoint) -> RawConnection:
    """As any client connects: again, while the places that the attack has left are not free yet.  Raises Overdue."""

    def connect() -> RawConnection | None:
        try:
            connection = RawConnection(endpoint, ANSWER_S)
            connection.request(API_VERSIONS, ApiVersionsRequest())
        except OSError:
            return None
        return connection

    return wait_until(f"{endpoint} takes a client", connect)


def _fetch(connection: RawConnection, offset: int) -> FetchPartitionResponse:
    partition = FetchPartition(TOPIC, NO_TOPIC_ID, 0, offset, 1024 * 1024)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1024 * 1024, partitions=(partition,))
    return connection.request(FETCH, request, FETCH_BY_NAME).partitions[0]
