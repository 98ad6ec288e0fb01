"""Logs and snapshots that simulated clusters leave, and what is in them in the words of LogReader.java."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import attrs

from kraft_trio import idempotent_producer
from kraft_trio.protocol.types import directory_id_to_text
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.deterministic import run_deterministically
from kraft_trio.simulation.facts.committed import NOTHING
from kraft_trio.simulation.faults.nemesis import PlanOptions, make_plan
from kraft_trio.simulation.script.run import MOST_REMEMBERED, setup_of
from kraft_trio.simulation.script.step import take
from kraft_trio.simulation.state_machine import RememberedValues
from kraft_trio.storage.batches.batch import (
    BatchHeader,
    Compression,
    NewRecord,
    Record,
    decode_control_batch,
    decode_records,
    encode_batch,
    iter_headers,
    peek_header,
)
from kraft_trio.storage.batches.control_records import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    SnapshotHeader,
    VotersRecord,
)
from kraft_trio.storage.batches.kafka_readable import why_kafka_cannot_read
from kraft_trio.storage.disk.disk import Buffer
from kraft_trio.tracing.events import TraceEvent

VIRTUAL_S: Final = 6
"""How long faults happen in a run."""

SETTINGS: Final = {"kraft.topic.name": "orders", "kraft.kafka.records": "readable"}
"""With this rule nobody appends to Kafka's own topic."""

_HAPPENINGS: Final = {"truncate": "truncations", "trim": "logs trimmed", "replace": "snapshots fetched"}
"""Kinds of trace events, and what they are counted as."""

_FORGOTTEN: Final = b"forgotten:"


class ReadableValues(RememberedValues):
    """Its snapshots have records of several timestamps, and no keys."""

    def save(self) -> Iterable[NewRecord]:
        first = [_FORGOTTEN + self._forgotten] if self._forgotten != NOTHING else []
        return [NewRecord(value, timestamp_ms=1000 + at // 3) for at, value in enumerate([*first, *self.values])]

    async def load(self, end_offset: int, records: AsyncIterator[Sequence[Record]]) -> None:
        values = [record.value or b"" async for some in records for record in some]
        self._forgotten = NOTHING
        if values and values[0].startswith(_FORGOTTEN):
            self._forgotten = values.pop(0).removeprefix(_FORGOTTEN)
        self.values = values
        self.loaded.append(end_offset)


def encode_compressed(source: random.Random, records: Sequence[NewRecord], **arguments: Any) -> bytes:
    """Encode a batch with a random compression, or with none where Kafka could not read the compressed one."""
    batch = encode_batch(records, **arguments, compression=source.choice(tuple(Compression)))
    if why_kafka_cannot_read(batch, 0, peek_header(batch, 0)) is None:
        return batch
    return encode_batch(records, **arguments)


@attrs.define
class Written:
    """What runs have left."""

    files: list[Path] = attrs.field(factory=list)
    covered: Counter[str] = attrs.field(factory=Counter)
    """What happened to the logs, and what is in the files."""

    def heard(self, event: TraceEvent) -> None:
        if event.kind in _HAPPENINGS:
            self.covered[_HAPPENINGS[event.kind]] += 1
        elif event.kind == "log" and event.cause == "snapshot taken":
            self.covered["snapshots taken"] += 1


def write_simulated(seed: int, directory: Path, written: Written) -> None:
    """Run the plan of a seed to its end, and write the files of each undamaged disk below `directory`.

    Raises InvariantViolated.
    """
    plan = make_plan(seed, PlanOptions(duration_us=VIRTUAL_S * 1_000_000))
    header = attrs.evolve(plan.header, settings=tuple(sorted({**dict(plan.header.settings), **SETTINGS}.items())))
    setup = setup_of(header)
    if setup.state_machine is not None:
        setup = attrs.evolve(setup, state_machine=lambda _: ReadableValues(MOST_REMEMBERED))

    async def main() -> Cluster:
        cluster = Cluster(setup)
        cluster.trace.listeners.append(written.heard)
        async with cluster.running():
            for step in attrs.evolve(plan, header=header).steps():
                await take(step, cluster)
        return cluster

    encode = partial(encode_compressed, random.Random(f"{seed}/compression"))
    with mock.patch.object(idempotent_producer, "encode_batch", encode):
        cluster = run_deterministically(main, seed=seed)
    for machine in cluster.machines.values():
        if machine.has_bad_disk:
            written.covered["damaged disks, left out"] += 1
            continue
        place = directory / f"seed-{seed}" / machine.host
        place.mkdir(parents=True)
        for name in machine.disk.peek_names(machine.partition_path):
            if name.endswith((".log", ".checkpoint")):
                content = machine.disk.peek(f"{machine.partition_path}/{name}")
                assert content is not None
                (place / name).write_bytes(content)
                written.files.append(place / name)


def lines_of(content: bytes, covered: Counter[str]) -> list[str]:
    """A line for each batch, as LogReader.java prints it."""
    lines = []
    for position, header in iter_headers(content):
        words: list[object] = [header.base_offset, header.last_offset, header.leader_epoch, header.max_timestamp_ms]
        words.append(header.size_in_bytes)
        if header.is_control:
            words += [0, 0]
            batch = content[position : position + header.size_in_bytes]
            words += [_control(record) for _, record in decode_control_batch(batch, 0, header)]
            covered.update(str(word).partition(":")[0] for word in words[7:])
        else:
            words += _values(content, position, header)
            covered[f"batches of {header.compression.name}"] += 1
            covered["idempotent batches"] += header.producer_id >= 0
        lines.append(" ".join(map(str, words)))
    return lines


def _values(content: Buffer, position: int, header: BatchHeader) -> list[object]:
    values = [record.value or b"" for record in decode_records(content, position, header)]
    return [len(values), zlib.crc32(b"".join(len(value).to_bytes(4, "big") + value for value in values))]


def _control(record: ControlRecord) -> str:
    match record:
        case LeaderChange(leader_id):
            return f"LEADER_CHANGE:{leader_id}"
        case SnapshotHeader(timestamp_ms):
            return f"SNAPSHOT_HEADER:{timestamp_ms}"
        case KRaftVersion(version):
            return f"KRAFT_VERSION:{version}"
        case VotersRecord(voters):
            return "KRAFT_VOTERS" + "".join(f":{v.id}/{directory_id_to_text(v.key.directory_id)}" for v in voters)
        case _:
            return "SNAPSHOT_FOOTER"
