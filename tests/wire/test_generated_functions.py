"""The generated readers and writers can be printed, and tracebacks through them show their lines."""

from __future__ import annotations

import traceback
from inspect import getsource

import pytest

from kraft_trio.wire.api import APIS, FETCH, SASL_HANDSHAKE, VOTE
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from kraft_trio.wire.generated_function import FunctionSource
from kraft_trio.wire.schema_writer import unsigned_varint


def test_the_source_of_a_reader_and_of_a_writer_can_be_printed():
    read, write = getsource(VOTE.reader("request", 2)), getsource(VOTE.writer("request", 2))
    assert read.startswith("def read(data, position, left):\n")
    assert write.startswith("def write(chunks, message):\n")
    for name in ("cluster_id", "topic", "last_offset_epoch", "pre_vote"):
        assert name in read
        assert f"message.{name}" in write


def test_two_messages_have_two_sources():
    sources = [getsource(FETCH.reader("request", version)) for version in (12, 17)]
    assert ["topic_id" in source for source in sources] == [False, True]


def test_a_traceback_shows_the_line_that_failed():
    with pytest.raises(AttributeError) as caught:
        VOTE.writer("request", 2)([], object())
    assert "message.cluster_id" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_a_null_where_the_version_has_none_is_refused_by_name():
    with pytest.raises(AssertionError, match="mechanism may not be null in this version"):
        SASL_HANDSHAKE.writer("request", 1)([], SaslHandshakeRequest(None))


def test_a_constant_without_a_literal_gets_a_name():
    first, second = object(), object()
    source = FunctionSource("def values():", {})
    source.line(
        f"return {source.constant('value', first)}, {source.constant('value', second)}, "
        f"{source.constant('value', None)}, {source.constant('value', 'text')}"
    )
    assert source.compiled("values", "test")() == (first, second, None, "text")


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16383, "ff7f"), (16384, "808001"), (0xFFFFFFFF, "ffffffff0f")],
)
def test_varints_at_the_borders_of_their_lengths(value, encoded):
    assert unsigned_varint(value).hex() == encoded


@pytest.mark.parametrize("api", APIS.values(), ids=repr)
def test_every_version_is_compiled(api):
    for version in range(api.min_version, api.max_version + 1):
        for kind in ("request", "response"):
            title = api.name + kind.capitalize()
            assert title in api.reader(kind, version).__code__.co_filename
            assert title in api.writer(kind, version).__code__.co_filename
