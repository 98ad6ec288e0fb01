"""Kafka's metadata records as `kraft dump-log --metadata` shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from harness.plain_messages import write_plain
from kraft_trio.cli import run
from kraft_trio.errors import ProtocolError
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.metadata_frame import decode_metadata_frame, kafkas_name
from kraft_trio.wire.metadata_schemas import SCHEMAS
from kraft_trio.wire.schema import Field, Structure

TOPIC_ID = UUID(int=5)
TOPIC_TEXT = "AAAAAAAAAAAAAAAAAAAABQ"
KAFKAS = {
    # Written by Kafka 4.4's controller and MetadataRecordSerde.
    "TOPIC_RECORD": ("01020007" + "6f7264657273" + TOPIC_ID.hex + "00", {"name": "orders", "topicId": TOPIC_TEXT}),
    "FEATURE_LEVEL_RECORD": (
        "010c0011" + b"metadata.version".hex() + "001d00",
        {"name": "metadata.version", "featureLevel": 29},
    ),
    "NO_OP_RECORD": ("01140000", {}),
}


def value_of(field: Field) -> Any:
    """Some value that is not the default."""
    if field.structure is not None:
        one: Any = {inner.name: value_of(inner) for inner in field.structure.all_fields}
    else:
        one = {"string": "text", "bytes": b"\x01\x02", "bool": True, "uuid": TOPIC_ID, "float64": 1.5}.get(
            field.kind, 7
        )
    return [one, one] if field.is_array else one


def shown(field: Field, value: Any) -> Any:
    if field.is_array:
        return [shown_one(field, one) for one in value]
    return shown_one(field, value)


def shown_one(field: Field, value: Any) -> Any:
    if field.structure is not None:
        return {kafkas_name(inner.name): shown(inner, value[inner.name]) for inner in field.structure.all_fields}
    return {"bytes": "AQI=", "uuid": TOPIC_TEXT}.get(field.kind, value)


def framed(key: int, version: int, structure: Structure, fields: dict[str, Any]) -> bytes:
    return bytes([1, key, version]) + write_plain(structure, fields)


VERSIONS = [(key, version) for key, schema in SCHEMAS.items() for version in range(schema.max_version + 1)]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_every_record_is_decoded(key: int, version: int) -> None:
    structure = SCHEMAS[key].structure(version)
    declared = structure.all_fields
    fields = {field.name: value_of(field) for field in declared}
    frame = decode_metadata_frame(framed(key, version, structure, fields))
    assert (frame.api_key, frame.version) == (key, version)
    assert frame.fields() == {kafkas_name(field.name): shown(field, fields[field.name]) for field in declared}


@pytest.mark.parametrize("name", KAFKAS)
def test_bytes_of_kafka(name: str) -> None:
    raw, fields = KAFKAS[name]
    frame = decode_metadata_frame(bytes.fromhex(raw))
    assert (frame.name, frame.fields()) == (name, fields)


def test_a_tagged_field_with_its_default_is_left_out() -> None:
    structure = SCHEMAS[5].structure(0)
    sent = {"partition_id": 3, "topic_id": TOPIC_ID, "isr": [], "leader": -2}
    frame = decode_metadata_frame(framed(5, 0, structure, sent))
    assert frame.fields() == {"partitionId": 3, "topicId": TOPIC_TEXT, "isr": []}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (bytes([1, 30, 0, 7]), "no record has the API key 30"),
        (bytes([1, 6, 0, 7]), "no record has the API key 6"),
        (bytes([1, 3, 3, 7]), "PartitionRecord: version 3, expected 0 to 2"),
        (bytes([1, 2, 0, 7]), "name"),
        (bytes([1, 20, 0, 0, 0]), "NoOpRecord"),
    ],
)
def test_a_record_that_cannot_be_decoded_is_shown_with_the_reason(
    record: bytes, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode_metadata_frame(record).fields()
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(encode_batch([NewRecord(record), NewRecord(bytes.fromhex("01140000"))], timestamp_ms=0))
    assert run(["dump-log", "--metadata", "--json", str(path)]) == 0
    unknown, known = json.loads(capsys.readouterr().out)["records"]
    assert unknown["metadata"]["data"] == record[3:].hex()
    assert reason in unknown["metadata"]["undecodable"]
    assert known["metadata"] == {"type": "NO_OP_RECORD", "version": 0, "data": {}}
