"""Kafka's own image of histories and directories, by `MetadataImages.java`, in a form that compares with ours."""

from __future__ import annotations

import struct
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from harness.kafka import adapted, java
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.metadata.image import Image
from kraft_trio.wire import metadata_schemas as schemas
from kraft_trio.wire.metadata_frame import decode_metadata_frame

PROGRAM = Path(__file__).with_name("MetadataImages.java")
JVM_SECONDS = 600
_NUMBER = struct.Struct(">i")


@attrs.frozen
class Replayed:
    """What Kafka says about one history."""

    refused: list[int]
    """Positions or offsets of records."""
    records: list[Any]
    """What its image writes into a snapshot."""

    @property
    def things(self) -> Counter[Any]:
        """What exists, in a form that compares with that of `things_of`."""
        return Counter(map(_comparable, self.records))


def things_of(image: Image) -> Counter[Any]:
    """What exists in our image."""
    return Counter(_comparable(record) for name in ENTITIES for record in image.things(name))


def replay_histories(directory: Path, histories: Sequence[Sequence[bytes]]) -> list[Replayed]:
    """Let Kafka replay histories of framed records.  `directory` is for files."""
    with (directory / "histories").open("wb") as file:
        file.write(_NUMBER.pack(len(histories)))
        for history in histories:
            file.write(_NUMBER.pack(len(history)))
            for value in history:
                file.write(_NUMBER.pack(len(value)) + value)
    return _run(directory, "histories")


def replay_files(directory: Path, runs: Mapping[tuple[Path, ...], Sequence[int]]) -> list[Replayed]:
    """Let Kafka replay files, of at most one snapshot and then of a log, and say what exists as of some offsets.

    Each offset is the end of a batch or of the snapshot, and they ascend.  `directory` is for files.
    """
    lines = ["\t".join([",".join(map(str, offsets)), *map(str, paths)]) for paths, offsets in runs.items()]
    (directory / "directories").write_text("".join(f"{line}\n" for line in lines))
    return _run(directory, "directories")


def _run(directory: Path, what: str) -> list[Replayed]:
    program = directory / PROGRAM.name
    program.write_text(adapted(PROGRAM.read_text()))
    done = subprocess.run(
        java(str(program), what, str(directory / what), str(directory / "images")),
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
        at += _NUMBER.size
        found: int = _NUMBER.unpack_from(data, at - _NUMBER.size)[0]
        return found

    def value() -> bytes:
        nonlocal at
        size = integer()
        at += size
        return data[at - size : at]

    images = []
    while at < len(data):
        refused = [integer() for _ in range(integer())]
        images.append(Replayed(refused, [decode_metadata_frame(value()).record() for _ in range(integer())]))
    return images


def _comparable(record: Any) -> Any:
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
