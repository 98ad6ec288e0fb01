"""ControllerRegistration, which nodes send and Apache Kafka's controllers serve (KIP-919), as kio reads it."""

from __future__ import annotations

import io
import struct
from datetime import timedelta
from uuid import UUID

import attrs
import pytest
from kio.schema.controller_registration.v0.request import ControllerRegistrationRequest as KioRequest
from kio.schema.controller_registration.v0.response import ControllerRegistrationResponse as KioResponse
from kio.schema.errors import ErrorCode as KioError
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import Endpoint, VersionRange
from kraft_trio.wire.api import APIS
from kraft_trio.wire.apis.controller_registration import (
    CONTROLLER_REGISTRATION,
    SECURITY_PROTOCOL_IDS,
    ControllerListener,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema_reader import REQUEST_ELEMENTS, RESPONSE_ELEMENTS

REQUEST = ControllerRegistrationRequest(
    controller_id=3,
    incarnation_id=UUID(int=5),
    listeners=tuple(
        ControllerListener(f"listener-{name}", Endpoint("node-3", 9093 + number), name)
        for number, name in enumerate(SECURITY_PROTOCOL_IDS)
    ),
    features={"kraft.version": VersionRange(0, 1), "metadata.version": VersionRange(0, 32767)},
)


def test_kio_reads_the_request() -> None:
    chunks: list[bytes] = []
    CONTROLLER_REGISTRATION.encode_request(REQUEST, 0, chunks)
    written = b"".join(chunks)
    read, size = entity_reader(KioRequest)(written, 0)
    assert size == len(written)
    assert (read.controller_id, read.incarnation_id, read.zk_migration_ready) == (3, UUID(int=5), False)
    assert [(it.name, it.host, it.port, it.security_protocol) for it in read.listeners] == [
        ("listener-PLAINTEXT", "node-3", 9093, 0),
        ("listener-SSL", "node-3", 9094, 1),
        ("listener-SASL_PLAINTEXT", "node-3", 9095, 2),
        ("listener-SASL_SSL", "node-3", 9096, 3),
    ]
    assert [(it.name, it.min_supported_version, it.max_supported_version) for it in read.features] == [
        ("kraft.version", 0, 1),
        ("metadata.version", 0, 32767),
    ]
    assert CONTROLLER_REGISTRATION.decode_request(0, written, 0, REQUEST_ELEMENTS) == REQUEST


def test_an_unknown_security_protocol_is_refused() -> None:
    chunks: list[bytes] = []
    CONTROLLER_REGISTRATION.encode_request(attrs.evolve(REQUEST, listeners=REQUEST.listeners[:1]), 0, chunks)
    changed = b"".join(chunks).replace(struct.pack(">HH", 9093, 0), struct.pack(">HH", 9093, 4))
    with pytest.raises(ProtocolError, match="security_protocol: 4, expected 0 to 3"):
        CONTROLLER_REGISTRATION.decode_request(0, changed, 0, REQUEST_ELEMENTS)


def test_the_response_of_kio_is_read() -> None:
    buffer = io.BytesIO()
    response = KioResponse(
        throttle_time=i32Timedelta.parse(timedelta(0)), error_code=KioError.not_controller, error_message="not I"
    )
    entity_writer(KioResponse)(buffer, response)
    written = buffer.getvalue()
    expected = ControllerRegistrationResponse(ErrorCode.not_controller, "not I")
    assert CONTROLLER_REGISTRATION.decode_response(0, written, 0, RESPONSE_ELEMENTS) == expected
    chunks: list[bytes] = []
    CONTROLLER_REGISTRATION.encode_response(expected, 0, chunks)
    assert b"".join(chunks) == written


def test_nodes_do_not_serve_it() -> None:
    """By that, a node tells controllers from other nodes."""
    assert CONTROLLER_REGISTRATION.key not in APIS
