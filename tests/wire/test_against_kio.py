"""Our reader and writer against kio's, on random messages of every version we speak."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import re
from uuid import UUID

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeader
from kio.serial import entity_reader as kio_reader
from kio.serial import entity_writer as kio_writer
from kio.serial.errors import OutOfBoundValue
from kio.static.primitive import Records

from harness.plain_messages import read_plain, write_plain
from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.wire.api import VOTE
from kraft_trio.wire.apis.vote import VoteRequest
from kraft_trio.wire.codec import encode_request
from kraft_trio.wire.schema import Form
from kraft_trio.wire.schema_reader import RESPONSE_ELEMENTS
from tests.support import sizes
from tests.wire.values import ALL_VERSIONS, VALUES, cut_down

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


EACH = pytest.mark.parametrize(
    ("api", "version", "kind"), COMPARED, ids=[f"{api.name}-{kind}-v{number}" for api, number, kind in COMPARED]
)
FEW = settings(max_examples=8 if sizes.IS_ALL else 3)
OUR_TAGS = 10_000
"""The first tag of a field of our own."""


LONGEST_MS = 2**50
"""Of longer times kio loses milliseconds, because it writes them from a float of seconds, and then it has none."""


def kios_bytes(entity_type, entity):
    buffer = io.BytesIO()
    kio_writer(entity_type)(buffer, entity)
    return buffer.getvalue()


def our_bytes(api, version, kind, value):
    chunks = []
    api.writer(kind, version)(chunks, value)
    return b"".join(chunks)


def without_our_tags(structure, fields):
    kept = {}
    for field in structure.all_fields:
        if field.name in fields and (field.tag or 0) < OUR_TAGS:
            value = fields[field.name]
            if field.structure is None or value is None:
                kept[field.name] = value
            elif field.is_array:
                kept[field.name] = [without_our_tags(field.structure, one) for one in value]
            else:
                kept[field.name] = without_our_tags(field.structure, value)
    return kept


@EACH
@FEW
@given(data=st.data())
def test_what_we_write_is_what_kio_writes(api, version, kind, data):
    value = cut_down(data.draw(VALUES[api.name, kind]), api.name, version)
    if hasattr(value, "session_lifetime_ms"):
        value = attrs.evolve(value, session_lifetime_ms=value.session_lifetime_ms % LONGEST_MS)
    structure = api.structure(kind, version)
    try:
        fields = read_plain(structure, our_bytes(api, version, kind, value))
    except UnsupportedVersionError:
        return
    raw = write_plain(structure, without_our_tags(structure, fields))
    entity_type = kio_type(api, version, kind)
    try:
        entity, size = kio_reader(entity_type)(raw, 0)
    except (OutOfBoundValue, ValueError, OverflowError) as error:
        if not re.search("timestamp|year|date", str(error)):
            raise
        return  # kio has fewer points in time
    assert size == len(raw)
    assert kios_bytes(entity_type, entity) == raw


def blank(field):
    """A value of the type.  Strings are not empty, because the only topic of a response has a name."""
    if field.is_array:
        return []
    if field.structure is not None:
        return {inner.name: blank(inner) for inner in field.structure.fields}
    return {"string": "topic", "bytes": b"", "records": b"", "bool": False, "uuid": UUID(int=0)}.get(field.kind, 0)


def made_fit(structure, fields):
    """Change what an object of ours cannot say: several topics, or a kind of upgrade that does not exist."""
    for field in structure.fields:
        if field.form is Form.ONLY:
            is_empty = field.unless is not None and fields["error"]
            fields[field.name] = [] if is_empty else [*fields[field.name], blank(field.element)][:1]
        if field.name == "upgrade_type":
            fields[field.name] = 2
        if field.is_array and field.structure is not None:
            for element in fields[field.name] or ():
                made_fit(field.structure, element)


def carried(structure, fields, seen=None):
    """The fields that an object of ours has."""
    seen = set() if seen is None else seen
    found = {}
    for field in (*structure.members, *structure.tagged):
        if field.form is Form.INLINE:
            found |= carried(field.structure, fields)
        elif field.form is Form.NEST:
            unsent = {leaf.name: leaf.default for leaf in field.structure.members}
            found[field.name] = carried(field.structure, fields.get(field.name, unsent), seen)
        elif field.form is Form.ONLY:
            found[field.name] = [carried(field.structure, one, seen) for one in fields[field.name]]
        elif field.form is Form.GROUPS:
            *_, array = field.structure.members
            found[field.name] = [
                (carried(attrs.evolve(field.structure, members=field.structure.members[:-1]), one), inner)
                for one in fields[field.name]
                for inner in (carried(array.structure, each) for each in one[array.name])
            ]
        elif field.name in fields and field.attribute not in (None, *seen) and (not field.via or not field.via.write):
            found[field.name] = shown(field, fields[field.name])
            seen.add(field.attribute)
    return found


def shown(field, value):
    if value is None and field.kind != "records":
        return None
    if field.is_array:
        return [shown(field.element, one) for one in value]
    if field.structure is not None:
        return carried(field.structure, value)
    return value or b"" if field.kind == "records" else value


@EACH
@FEW
@given(data=st.data())
def test_what_kio_writes_is_read_and_written_again_as_far_as_our_class_goes(api, version, kind, data):
    entity_type = kio_type(api, version, kind)
    entity = data.draw(st.from_type(entity_type))
    if hasattr(entity, "session_lifetime"):
        short = entity.session_lifetime % datetime.timedelta(milliseconds=LONGEST_MS)
        entity = dataclasses.replace(entity, session_lifetime=short)
    by_kio = kios_bytes(entity_type, entity)
    structure = api.structure(kind, version)
    fields = read_plain(structure, by_kio)
    assert write_plain(structure, fields) == by_kio
    made_fit(structure, fields)
    raw = write_plain(structure, fields)
    value = api.reader(kind, version)(raw, 0, RESPONSE_ELEMENTS)
    again = our_bytes(api, version, kind, value)
    assert carried(structure, read_plain(structure, again)) == carried(structure, fields)
    assert our_bytes(api, version, kind, api.reader(kind, version)(again, 0, RESPONSE_ELEMENTS)) == again
    assert kio_reader(entity_type)(again, 0)[1] == len(again)


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
