"""Kafka's own image and ours, after the same histories of metadata records."""

from __future__ import annotations

import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from harness.kafka import adapted, java
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.metadata.history import History, Made, Origin, Problem
from kraft_trio.wire import metadata_schemas as schemas
from kraft_trio.wire.metadata_frame import decode_metadata_frame
from tests.interop.kafka_schemas import newest_version, schemas_in
from tests.support import sizes
from tests.support.metadata_histories import RandomHistory

PROGRAM = Path(__file__).with_name("MetadataImages.java")
JVM_SECONDS = 600
RECORDS = 1000
HISTORIES = 1000 if sizes.IS_ALL or sizes.IS_INTEROP else 40

WITHOUT_CHANGES = {
    "NO_OP_RECORD",
    "ZK_MIGRATION_STATE_RECORD",
    "BEGIN_TRANSACTION_RECORD",
    "END_TRANSACTION_RECORD",
    "ABORT_TRANSACTION_RECORD",
}


@attrs.frozen
class Replayed:
    """What Kafka says about one history."""

    refused: list[int]
    records: list[Any]
    """What its image writes into a snapshot."""


def replayed_by_kafka(directory: Path, histories: Sequence[Sequence[bytes]]) -> list[Replayed]:
    number = struct.Struct(">i")
    with (directory / "histories").open("wb") as file:
        file.write(number.pack(len(histories)))
        for history in histories:
            file.write(number.pack(len(history)))
            for value in history:
                file.write(number.pack(len(value)) + value)
    program = directory / PROGRAM.name
    program.write_text(adapted(PROGRAM.read_text()))
    done = subprocess.run(
        java(str(program), str(directory / "histories"), str(directory / "images")),
        capture_output=True,
        text=True,
        timeout=JVM_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    data = (directory / "images").read_bytes()
    at = 0

    def integer() -> int:
        nonlocal at
        at += number.size
        found: int = number.unpack_from(data, at - number.size)[0]
        return found

    def value() -> bytes:
        nonlocal at
        size = integer()
        at += size
        return data[at - size : at]

    return [
        Replayed(
            [integer() for _ in range(integer())],
            [decode_metadata_frame(value()).record() for _ in range(integer())],
        )
        for _ in histories
    ]


def replayed_by_us(history: Sequence[bytes]) -> tuple[Replayed, Iterator[Made]]:
    ours = History()
    results = [one for at, value in enumerate(history) for one in ours.add(Origin(at, 1, None), value)]
    refused = [one.origin.offset for one in results if isinstance(one, Problem)]
    records = [record for name in ENTITIES for record in ours.image.things(name)]
    return Replayed(refused, records), (one for one in results if isinstance(one, Made))


def comparable(record: Any) -> Any:
    """The record without what Kafka's image does not keep, and in one order where it keeps none."""
    match record:
        case schemas.PartitionRecord():
            return attrs.evolve(
                record,
                eligible_leader_replicas=record.eligible_leader_replicas or (),
                last_known_elr=record.last_known_elr or (),
            )
        case schemas.RegisterBrokerRecord() | schemas.RegisterControllerRecord():
            by_name = {
                name: tuple(sorted(getattr(record, name), key=lambda one: one.name))
                for name in ("end_points", "features")
            }
            if isinstance(record, schemas.RegisterBrokerRecord):
                by_name["log_dirs"] = tuple(sorted(record.log_dirs))
            return attrs.evolve(record, **by_name)
        case schemas.ClientQuotaRecord():
            return attrs.evolve(record, entity=tuple(sorted(record.entity, key=lambda one: one.entity_type)))
        case schemas.FeatureLevelRecord("metadata.version"):
            return record.name  # a snapshot has the level that its writer chooses
        case schemas.ProducerIdsRecord():
            return record.next_producer_id
        case _:
            return record


def test_our_image_is_kafkas(tmp_path: Path, says: Callable[[str], None]) -> None:
    kafkas = schemas_in("kafka-metadata", "common/metadata/")
    versions = {schema["apiKey"]: newest_version(schema) for schema in kafkas}
    histories = [RandomHistory(seed, versions).framed(RECORDS) for seed in range(HISTORIES)]
    kinds: Counter[str] = Counter()
    refused = count = 0
    for seed, (history, theirs) in enumerate(zip(histories, replayed_by_kafka(tmp_path, histories), strict=True)):
        ours, made = replayed_by_us(history)
        assert ours.refused == theirs.refused, seed
        assert Counter(map(comparable, ours.records)) == Counter(map(comparable, theirs.records)), seed
        kinds.update(one.record for one in made)
        refused += len(ours.refused)
        count += len(history)
    assert kinds.keys() == {schemas.SCHEMAS[key].type_name for key in versions} - WITHOUT_CHANGES
    assert refused > 0
    says(f"{HISTORIES} histories, {count} records, {refused} refused by both")
