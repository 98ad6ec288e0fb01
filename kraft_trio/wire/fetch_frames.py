"""The frames of a replica's Fetches, which differ from each other in a few numbers and the records.

The general codec makes and reads the first one.  A template keeps what stays the same, as the general encoder wrote it;
the rest is one `struct` call.  Whatever a template does not fit goes through the general codec.
"""

from __future__ import annotations

from struct import Struct

import attrs

from kraft_trio.wire.apis.fetch import (
    FETCH,
    UNSUPPORTED_HIGH_WATERMARK,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)
from kraft_trio.wire.codec import (
    PART_BYTES,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response_parts,
)
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.frame_templates import (
    CORRELATION_ID,
    EPOCH,
    LENGTH_BYTES,
    OFFSETS,
    RECORDS,
    Last,
    gaps,
    int32,
    int64,
    last_bytes,
)
from kraft_trio.wire.writer_source import unsigned_varint


class _RequestTemplate:
    """A Fetch of one partition.  Its offset, epoch and high watermark may differ, and the correlation id."""

    def __init__(self, header: RequestHeader, request: FetchRequest, between: list[bytes]) -> None:
        self.header = header
        self.request = request
        self.partition = request.partitions[0]
        start, self._second, self._third, self._end = between
        self._start = start[LENGTH_BYTES:]
        self._length = start[:LENGTH_BYTES]
        sizes = len(self._start), len(self._second), len(self._third), len(self._end)
        body = "{}si{}sqi{}sq{}s".format(*sizes)
        self._body = Struct(">" + body)
        self._frame = Struct(f">{LENGTH_BYTES}s{body}")

    @classmethod
    def like(cls, header: RequestHeader, request: FetchRequest) -> _RequestTemplate | None:
        if len(request.partitions) != 1 or request.partitions[0].high_watermark == UNSUPPORTED_HIGH_WATERMARK:
            return None
        marked = attrs.evolve(
            request.partitions[0], fetch_offset=OFFSETS[0], last_fetched_epoch=EPOCH, high_watermark=OFFSETS[1]
        )
        frame = encode_request(
            FETCH, header.version, CORRELATION_ID, header.client_id, attrs.evolve(request, partitions=(marked,))
        )
        position = int64(OFFSETS[0]) + int32(EPOCH)
        between = gaps(frame, int32(CORRELATION_ID), position, int64(OFFSETS[1]))
        return None if between is None else cls(header, request, between)

    def frame(self, version: int, correlation_id: int, client_id: str, request: FetchRequest) -> bytes | None:
        """The frame of a request, or None if the template does not fit."""
        known, header = self.request, self.header
        if len(request.partitions) != 1:
            return None
        partition, known_partition = request.partitions[0], self.partition
        high_watermark = partition.high_watermark
        if (
            high_watermark == UNSUPPORTED_HIGH_WATERMARK
            or version != header.version
            or client_id != header.client_id
            or request.read_round != known.read_round
            or request.max_wait_ms != known.max_wait_ms
            or request.cluster_id != known.cluster_id
            or request.replica_id != known.replica_id
            or request.min_bytes != known.min_bytes
            or request.max_bytes != known.max_bytes
            or request.isolation_level != known.isolation_level
            or request.session_id != known.session_id
            or request.session_epoch != known.session_epoch
            or request.kraft_versions != known.kraft_versions
            or (request.listeners is not known.listeners and request.listeners != known.listeners)
            or request.read_lease_wait_ms != known.read_lease_wait_ms
            or partition.current_leader_epoch != known_partition.current_leader_epoch
            or partition.partition != known_partition.partition
            or partition.max_bytes != known_partition.max_bytes
            or partition.log_start_offset != known_partition.log_start_offset
            or partition.topic_name != known_partition.topic_name
            or (partition.topic_id is not known_partition.topic_id and partition.topic_id != known_partition.topic_id)
            or (
                partition.replica_directory_id is not known_partition.replica_directory_id
                and partition.replica_directory_id != known_partition.replica_directory_id
            )
        ):
            return None
        return self._frame.pack(
            self._length,
            self._start,
            correlation_id,
            self._second,
            partition.fetch_offset,
            partition.last_fetched_epoch,
            self._third,
            high_watermark,
            self._end,
        )

    def read(self, frame: bytes) -> tuple[RequestHeader, FetchRequest] | None:
        """The header and the request in a frame without its length, or None if the template does not fit."""
        if len(frame) != self._body.size:
            return None
        start, correlation_id, second, offset, epoch, third, high_watermark, end = self._body.unpack(frame)
        if (
            start != self._start
            or second != self._second
            or third != self._third
            or end != self._end
            or high_watermark == UNSUPPORTED_HIGH_WATERMARK
        ):
            return None
        known, known_partition, header = self.request, self.partition, self.header
        partition = FetchPartition(
            known_partition.topic_name,
            known_partition.topic_id,
            known_partition.partition,
            offset,
            known_partition.max_bytes,
            known_partition.current_leader_epoch,
            epoch,
            known_partition.log_start_offset,
            known_partition.replica_directory_id,
            high_watermark,
        )
        return RequestHeader(FETCH, header.version, correlation_id, header.client_id), FetchRequest(
            known.cluster_id,
            known.replica_id,
            known.max_wait_ms,
            known.min_bytes,
            known.max_bytes,
            known.isolation_level,
            known.session_id,
            known.session_epoch,
            (partition,),
            known.kraft_versions,
            known.listeners,
            known.read_round,
            known.read_lease_wait_ms,
        )


class _ResponseTemplate:
    """The response for one partition without an error.  Its offsets and records may differ."""

    def __init__(self, version: int, answer: FetchPartitionResponse, between: list[bytes]) -> None:
        self.version = version
        self.answer = answer
        start, self._second, third, self._end = between
        assert len(start) == LENGTH_BYTES, "a response begins with its correlation id"
        # The length of the records is before them.
        self._third = third[:-1]
        sizes = f"i{len(self._second)}sqqq{len(self._third)}s"
        self._head = Struct(">" + sizes)
        self._frame_head = Struct(">i" + sizes)

    @classmethod
    def like(cls, version: int, response: FetchResponse) -> _ResponseTemplate | None:
        if version < FETCH.flexible_version or not _is_plain(response):
            return None
        high_watermark, last_stable, log_start = OFFSETS
        marked = attrs.evolve(
            response.partitions[0],
            high_watermark=high_watermark,
            last_stable_offset=last_stable,
            log_start_offset=log_start,
            records=RECORDS,
        )
        (frame,) = encode_response_parts(FETCH, version, CORRELATION_ID, FetchResponse(partitions=(marked,)))
        between = gaps(frame, int32(CORRELATION_ID), b"".join(map(int64, OFFSETS)), RECORDS)
        return None if between is None else cls(version, marked, between)

    def parts(self, version: int, correlation_id: int, response: FetchResponse) -> list[bytes] | None:
        """The frame of a response, or None if the template does not fit."""
        if version != self.version or not _is_plain(response):
            return None
        answer, known = response.partitions[0], self.answer
        if (
            answer.leader_epoch != known.leader_epoch
            or answer.leader_id != known.leader_id
            or answer.read_round != known.read_round
            or answer.partition != known.partition
            or answer.topic_name != known.topic_name
            or (answer.topic_id is not known.topic_id and answer.topic_id != known.topic_id)
        ):
            return None
        records = answer.records
        length = unsigned_varint(len(records) + 1)
        head = self._frame_head.pack(
            self._head.size + len(length) + len(records) + len(self._end),
            correlation_id,
            self._second,
            answer.high_watermark,
            answer.last_stable_offset,
            answer.log_start_offset,
            self._third,
        )
        if len(records) < PART_BYTES:
            return [b"".join((head, length, records, self._end))]
        return [head + length, records, self._end]

    def read(self, version: int, frame: bytes) -> FetchResponse | None:
        """The response in a frame without its length, or None if the template does not fit."""
        position = self._head.size
        if version != self.version or len(frame) <= position:
            return None
        _, second, high_watermark, last_stable, log_start, third = self._head.unpack_from(frame)
        if second != self._second or third != self._third:
            return None
        records = last_bytes(frame, position, self._end)
        if records is None:
            return None
        known = self.answer
        answer = FetchPartitionResponse(
            known.topic_name,
            known.topic_id,
            known.partition,
            ErrorCode.none,
            high_watermark,
            last_stable,
            log_start,
            records,
            None,
            known.leader_id,
            known.leader_epoch,
            None,
            known.read_round,
        )
        return FetchResponse(ErrorCode.none, 0, (answer,), ())


def _is_plain(response: FetchResponse) -> bool:
    """Whether the response is for one partition, and nothing but records and offsets."""
    if len(response.partitions) != 1 or response.error or response.session_id or response.node_endpoints:
        return False
    answer = response.partitions[0]
    return not answer.error and answer.diverging is None and answer.snapshot_id is None


class FetchFrames:
    """Encodes and decodes the Fetches of one connection, of the client or the server.

    The methods return and raise what the functions of the same names in `wire/codec.py` do.
    """

    __slots__ = ("_requests", "_responses")

    def __init__(self) -> None:
        self._requests: Last[_RequestTemplate] = Last()
        self._responses: Last[_ResponseTemplate] = Last()

    def encode_request(self, version: int, correlation_id: int, client_id: str, request: FetchRequest) -> bytes:
        last = self._requests
        if last.template is not None:
            frame = last.template.frame(version, correlation_id, client_id, request)
            if frame is not None:
                last.fitted()
                return frame
        frame = encode_request(FETCH, version, correlation_id, client_id, request)
        if last.is_due():
            last.template = _RequestTemplate.like(RequestHeader(FETCH, version, 0, client_id), request)
        return frame

    def decode_request(self, frame: bytes) -> tuple[RequestHeader, object]:
        """Also decodes the requests of other APIs."""
        last = self._requests
        if last.template is not None:
            decoded = last.template.read(frame)
            if decoded is not None:
                last.fitted()
                return decoded
        header, request = decode_request(frame)
        if header.api is FETCH and request.replica_id >= 0 and last.is_due():
            last.template = _RequestTemplate.like(header, request)
        return header, request

    def encode_response_parts(self, version: int, correlation_id: int, response: FetchResponse) -> list[bytes]:
        last = self._responses
        if last.template is not None:
            parts = last.template.parts(version, correlation_id, response)
            if parts is not None:
                last.fitted()
                return parts
        if last.is_due():
            last.template = _ResponseTemplate.like(version, response)
        return encode_response_parts(FETCH, version, correlation_id, response)

    def decode_response(self, version: int, frame: bytes) -> FetchResponse:
        """Without the correlation id."""
        last = self._responses
        if last.template is not None:
            decoded = last.template.read(version, frame)
            if decoded is not None:
                last.fitted()
                return decoded
        response = decode_response(FETCH, version, frame)[1]
        if last.is_due():
            last.template = _ResponseTemplate.like(version, response)
        return response
