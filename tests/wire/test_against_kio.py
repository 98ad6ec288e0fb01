"""Our reader and writer against kio's, on random messages of every version we speak."""

from __future__ import annotations

import importlib
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeader
from kio.serial import entity_reader as kio_reader
from kio.serial import entity_writer as kio_writer
from kio.static.primitive import Records

from kraft_trio.wire.api import VOTE
from kraft_trio.wire.apis.vote import VoteRequest
from kraft_trio.wire.codec import encode_request
from kraft_trio.wire.schema_reader import RESPONSE_ELEMENTS, message_reader
from kraft_trio.wire.schema_writer import entity_writer
from tests.support import sizes
from tests.wire.values import ALL_VERSIONS, VALUES

pytestmark = pytest.mark.rotating(2)

st.register_type_strategy(Records, st.binary(max_size=200))


def kio_type(api, version, kind):
    package = re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).lower()
    module = importlib.import_module(f"kio.schema.{package}.v{version}.{kind}")
    return getattr(module, api.name + kind.capitalize())


OUR_KEYS = 10_000
"""The first key of an API of our own."""

KAFKAS = [row for row in ALL_VERSIONS if row[0].key < OUR_KEYS]
OLDER = [row for row in KAFKAS if row[1] < row[0].max_version]
COMPARED = [*(row for row in KAFKAS if row not in OLDER), *sizes.part(OLDER, 4)]
"""The newest version of every API, and older ones that change with the commit."""


@pytest.mark.parametrize(
    ("api", "version", "kind"), COMPARED, ids=[f"{api.name}-{kind}-v{number}" for api, number, kind in COMPARED]
)
@settings(max_examples=8 if sizes.IS_ALL else 3)
@given(data=st.data())
def test_what_kio_writes_is_read_and_written_again_the_same(api, version, kind, data):
    entity_type = kio_type(api, version, kind)
    entity = data.draw(st.from_type(entity_type))
    buffer = io.BytesIO()
    kio_writer(entity_type)(buffer, entity)
    written_by_kio = buffer.getvalue()

    shape = api.shape(kind, version)
    fields = message_reader(shape)(written_by_kio, 0, RESPONSE_ELEMENTS)
    chunks = []
    entity_writer(shape)(chunks, fields)
    assert b"".join(chunks) == written_by_kio


@settings(max_examples=50)
@given(request=VALUES["Vote", "request"], client_id=st.none() | st.text(max_size=20), correlation_id=st.integers(0, 99))
def test_request_headers_are_read_by_kio(request: VoteRequest, client_id, correlation_id):
    frame = encode_request(VOTE, 2, correlation_id, client_id, request)[4:]
    header, size = kio_reader(KioRequestHeader)(frame, 0)
    assert header == KioRequestHeader(
        request_api_key=52, request_api_version=2, correlation_id=correlation_id, client_id=client_id
    )
    message, message_size = kio_reader(kio_type(VOTE, 2, "request"))(frame, size)
    assert size + message_size == len(frame)
    assert message.topics[0].topic_name == request.topic
