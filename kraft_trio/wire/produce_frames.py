"""The frames of a client's Produce requests, of which most differ from the last one in the records alone.

The server reads them, and makes the responses, by templates like those of `wire/fetch_frames.py`.
"""

from __future__ import annotations

from struct import Struct

import attrs

from kraft_trio.wire.apis.produce import (
    PRODUCE,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kraft_trio.wire.codec import (
    RequestHeader,
    decode_request,
    encode_request,
    encode_response,
    encode_response_parts,
)
from kraft_trio.wire.frame_templates import (
    CORRELATION_ID,
    LENGTH_BYTES,
    OFFSETS,
    RECORDS,
    Last,
    gaps,
    int32,
    int64,
    last_bytes,
)


class _RequestTemplate:
    """A Produce for one partition.  Its records may differ, and the correlation id."""

    def __init__(self, header: RequestHeader, request: ProduceRequest, between: list[bytes]) -> None:
        self._header = header
        self._request = request
        start, second, self._end = between
        self._start = start[LENGTH_BYTES:]
        # The length of the records is before them.
        self._second = second[:-1]
        self._head = Struct(f">{len(self._start)}si{len(self._second)}s")

    @classmethod
    def like(cls, header: RequestHeader, request: ProduceRequest) -> _RequestTemplate | None:
        if header.version < PRODUCE.flexible_version or len(request.partitions) != 1:
            return None
        # Without the records, which may be large.
        partition = attrs.evolve(request.partitions[0], records=RECORDS)
        marked = attrs.evolve(request, partitions=(partition,))
        frame = encode_request(PRODUCE, header.version, CORRELATION_ID, header.client_id, marked)
        between = gaps(frame, int32(CORRELATION_ID), RECORDS)
        return None if between is None else cls(header, marked, between)

    def read(self, frame: bytes) -> tuple[RequestHeader, ProduceRequest] | None:
        """The header and the request in a frame without its length, or None if the template does not fit."""
        head = self._head
        if len(frame) <= head.size:
            return None
        start, correlation_id, second = head.unpack_from(frame)
        if start != self._start or second != self._second:
            return None
        records = last_bytes(frame, head.size, self._end)
        if records is None:
            return None
        header, request = self._header, self._request
        known = request.partitions[0]
        partition = ProducePartition(known.topic_name, known.topic_id, known.partition, records)
        return (
            RequestHeader(PRODUCE, header.version, correlation_id, header.client_id),
            ProduceRequest(request.acks, request.timeout_ms, (partition,), request.transactional_id),
        )


class _ResponseTemplate:
    """The response for one appended batch.  Its base offset and the log's start may differ."""

    def __init__(self, version: int, answer: ProducePartitionResponse, between: list[bytes]) -> None:
        self._version = version
        self._answer = answer
        self._constant = between
        sizes = [f"{len(gap)}s" for gap in between]
        self._frame = Struct(">" + "{}i{}q{}q{}".format(*sizes))

    @classmethod
    def like(cls, version: int, response: ProduceResponse) -> _ResponseTemplate | None:
        if version < PRODUCE.flexible_version or not _is_plain(response):
            return None
        marked = attrs.evolve(response.partitions[0], base_offset=OFFSETS[0], log_start_offset=OFFSETS[1])
        frame = encode_response(PRODUCE, version, CORRELATION_ID, ProduceResponse((marked,)))
        between = gaps(frame, int32(CORRELATION_ID), int64(OFFSETS[0]), int64(OFFSETS[1]))
        return None if between is None else cls(version, response.partitions[0], between)

    def frame(self, version: int, correlation_id: int, response: ProduceResponse) -> bytes | None:
        """The frame of a response, or None if the template does not fit."""
        if version != self._version or not _is_plain(response):
            return None
        answer, known = response.partitions[0], self._answer
        if (
            answer.partition != known.partition
            or answer.log_append_time_ms != known.log_append_time_ms
            or answer.leader_id != known.leader_id
            or answer.leader_epoch != known.leader_epoch
            or answer.topic_name != known.topic_name
            or (answer.topic_id is not known.topic_id and answer.topic_id != known.topic_id)
        ):
            return None
        start, second, third, end = self._constant
        return self._frame.pack(start, correlation_id, second, answer.base_offset, third, answer.log_start_offset, end)


def _is_plain(response: ProduceResponse) -> bool:
    """Whether the response is for one partition, without an error."""
    if len(response.partitions) != 1 or response.node_endpoints:
        return False
    answer = response.partitions[0]
    return not answer.error and answer.error_message is None


class ProduceFrames:
    """Decodes the Produce requests of one connection, and encodes the responses.

    The methods return and raise what the functions of the same names in `wire/codec.py` do.
    """

    __slots__ = ("_requests", "_responses")

    def __init__(self) -> None:
        self._requests: Last[_RequestTemplate] = Last()
        self._responses: Last[_ResponseTemplate] = Last()

    def decode_request(self, frame: bytes) -> tuple[RequestHeader, object]:
        last = self._requests
        if last.template is not None:
            decoded = last.template.read(frame)
            if decoded is not None:
                last.fitted()
                return decoded
        header, request = decode_request(frame)
        if last.is_due():
            last.template = _RequestTemplate.like(header, request)
        return header, request

    def encode_response_parts(self, version: int, correlation_id: int, response: ProduceResponse) -> list[bytes]:
        last = self._responses
        if last.template is not None:
            frame = last.template.frame(version, correlation_id, response)
            if frame is not None:
                last.fitted()
                return [frame]
        if last.is_due():
            last.template = _ResponseTemplate.like(version, response)
        return encode_response_parts(PRODUCE, version, correlation_id, response)
