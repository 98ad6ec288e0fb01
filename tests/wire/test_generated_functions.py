"""The generated readers and writers can be printed, and tracebacks through them show their lines."""

from __future__ import annotations

import traceback
from inspect import getsource

import pytest

from kraft_trio.wire.api import APIS, FETCH, METADATA, VOTE
from kraft_trio.wire.generated_function import FunctionSource
from kraft_trio.wire.schema_reader import message_reader
from kraft_trio.wire.schema_writer import entity_writer, unsigned_varint


def test_the_source_of_a_reader_and_of_a_writer_can_be_printed():
    shape = VOTE.shape("request", 2)
    read, write = getsource(message_reader(shape)), getsource(entity_writer(shape))
    assert read.startswith("def read(data, position, left):\n")
    assert write.startswith("def write(chunks, fields):\n")
    for name in ("cluster_id", "topic_name", "last_offset_epoch", "pre_vote"):
        assert f"'{name}'" in read
        assert f"'{name}'" in write


def test_two_messages_have_two_sources():
    sources = [getsource(message_reader(FETCH.shape("request", version))) for version in (12, 17)]
    assert ["topic_id" in source for source in sources] == [False, True]


def test_a_traceback_shows_the_line_that_failed():
    write = entity_writer(VOTE.shape("request", 0))
    with pytest.raises(KeyError) as caught:
        write([], {})
    assert "fields['cluster_id']" in "".join(traceback.format_tb(caught.value.__traceback__))


def test_a_null_where_the_version_has_none_is_refused_by_name():
    with pytest.raises(AssertionError, match="topics may not be null in this version"):
        entity_writer(METADATA.shape("request", 0))([], {"topics": None})


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
            shape = api.shape(kind, version)
            assert shape.name in message_reader(shape).__code__.co_filename
            assert shape.name in entity_writer(shape).__code__.co_filename
