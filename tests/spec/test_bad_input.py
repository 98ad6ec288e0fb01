"""What `scripts/trace-check` cannot check is refused with a sentence, before TLC runs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
from click.testing import CliRunner

from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.batches.batch import NewRecord, encode_batch, encode_control_batch
from kraft_trio.storage.batches.control_records import LeaderChange
from kraft_trio.storage.directory.meta_properties import MetaProperties, encode_meta_properties
from kraft_trio.storage.directory.quorum_state import encode_quorum_state, with_crc
from kraft_trio.tracing.events import NO_STATE, NodeState, TraceEvent, event_of
from kraft_trio.tracing.files import TraceHeader, TraceWriter
from scripts.trace_checking import __main__ as command
from scripts.trace_checking.written import PARTITION

KEY = str(ReplicaKey(1, UUID(int=1)))
FOLLOWER = NodeState(1, "Follower", 2, 1, 0, None, (1, 2))
GOOD = [
    event_of(0, 0, 1, "start", NO_STATE, "", {"directory_id": KEY}),
    event_of(1, 1, 1, "role", FOLLOWER, "", {"was": None, "voted": None, "known_leader": 2}),
    event_of(
        *(2, 2, 1, "append", FOLLOWER, ""),
        {"base_offset": 0, "record_epoch": 1, "voters_offsets": [0], "voters": [KEY]},
    ),
    event_of(
        *(3, 3, 1, "log", FOLLOWER, "vote requested"),
        {"candidate": KEY, "epoch": 1, "pre_vote": True, "granted": False},
    ),
    event_of(4, 4, 1, "log", FOLLOWER, "role", {"role": "Candidate", "reason": None, "by": "TIMEOUT"}),
    event_of(5, 5, 1, "trim", FOLLOWER, "", {"to": 0}),
    event_of(6, 6, 1, "log", FOLLOWER, "snapshot taken", {"snapshot_id": "0@1"}),
]
SIMULATED = TraceHeader(seed=1)
OF_NODE = TraceHeader(cluster_id="cluster", node=1)


def written(file: Path, events: Sequence[TraceEvent] = GOOD, header: TraceHeader = SIMULATED) -> Path:
    with TraceWriter(file, header) as writer:
        for event in events:
            writer.write(event)
    return file


def refusal(*arguments: str | Path) -> str:
    refused = CliRunner().invoke(command.main, [str(argument) for argument in arguments])
    assert refused.exit_code == 2, refused.output
    assert isinstance(refused.exception, SystemExit), repr(refused.exception)
    return refused.output


def with_detail(at: int, name: str, value: Any) -> list[TraceEvent]:
    event = GOOD[at]
    return [*GOOD[:at], attrs.evolve(event, details={**event.details, name: value}), *GOOD[at + 1 :]]


def without_detail(at: int, name: str) -> list[TraceEvent]:
    details = {other: value for other, value in GOOD[at].details.items() if other != name}
    return [*GOOD[:at], attrs.evolve(GOOD[at], details=details), *GOOD[at + 1 :]]


@pytest.mark.parametrize(
    ("at", "name"), [(at, name) for at, event in enumerate(GOOD) for name in event.details], ids=str
)
def test_every_detail_that_is_read_must_be_there(tmp_path: Path, at: int, name: str) -> None:
    told = refusal(written(tmp_path / "a.trace", without_detail(at, name)))
    assert f"a.trace: event {at}, {GOOD[at].kind}" in told
    assert f"without {name}; expected " in told
    assert f"{name} -1.5; expected " in refusal(written(tmp_path / "b.trace", with_detail(at, name, -1.5)))


@pytest.mark.parametrize(
    ("field", "value"),
    [("role", 'Lea"der'), ("epoch", None), ("leader", -1), ("log_end", None), ("synced_end", -1)],
)
def test_every_field_that_is_read_must_be_there(tmp_path: Path, field: str, value: object) -> None:
    false = attrs.evolve(GOOD[1], **{field: value})
    told = refusal(written(tmp_path / "a.trace", [GOOD[0], false]))
    assert f"a.trace: event 1, role: {field} {value!r}; expected " in told


def test_events_that_are_missing(tmp_path: Path) -> None:
    file = tmp_path / "a.trace"
    assert "event 2, append: expected event 1, which is lost" in refusal(written(file, [GOOD[0], *GOOD[2:]]))
    unstarted = [attrs.evolve(event, sequence=event.sequence - 1) for event in GOOD[1:]]
    assert "event 0, role: node 1 has not started" in refusal(written(file, unstarted))
    late = attrs.evolve(GOOD[1], epoch=10_001)
    assert "event 1: epoch 10001; expected 10000 at most" in refusal(written(file, [GOOD[0], late]))


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    simulated, node = written(tmp_path / "s"), written(tmp_path / "1", header=OF_NODE)
    stranger = written(tmp_path / "2", header=TraceHeader(cluster_id="another", node=1))
    assert "2: cluster id another; expected cluster, which " in refusal("--quorum", node, stranger)
    assert "1: begins as " in refusal("--quorum", node, node)
    assert "s: the trace of a simulated run" in refusal("--quorum", simulated)
    assert "1: the trace of a node; expected --quorum" in refusal(node)
    assert "a directory; expected a trace, or --logs" in refusal(tmp_path)
    assert "'--limit': 0" in refusal("--limit", "0", simulated)


def test_the_last_record_of_a_killed_node_may_be_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[TraceEvent] = []

    def ended(events: Sequence[TraceEvent]) -> None:
        checked.extend(events)
        raise OSError(0, "ended", "here")

    monkeypatch.setattr(command, "steps_of", ended)
    file = written(tmp_path / "1", header=OF_NODE)
    file.write_bytes(file.read_bytes()[:-1])
    assert refusal("--quorum", file) == "here: ended\n"
    assert checked == GOOD[:-1]


# Directories


def data_batch(base_offset: int) -> bytes:
    return encode_batch([NewRecord(b"value")], timestamp_ms=0, base_offset=base_offset, leader_epoch=1)


LOG = encode_control_batch([LeaderChange(1, (1,), (1,))], timestamp_ms=0, leader_epoch=1) + data_batch(1)


def directory(path: Path, node_id: int = 1, cluster_id: str = "cluster") -> Path:
    key = ReplicaKey(node_id, UUID(int=node_id))
    partition = path / PARTITION
    partition.mkdir(parents=True)
    (path / "meta.properties").write_bytes(
        encode_meta_properties(MetaProperties(cluster_id, node_id, key.directory_id))
    )
    state = encode_quorum_state(ElectionState(1, 1), 1, VoterSet([]))
    (partition / "quorum-state").write_bytes(with_crc(state))
    (partition / f"{0:020}.log").write_bytes(LOG)
    return path


def test_directories_that_do_not_belong_together(tmp_path: Path) -> None:
    first, same = directory(tmp_path / "1"), directory(tmp_path / "2")
    stranger = directory(tmp_path / "3", 3, "another")
    assert "3: cluster.id another; expected cluster, which " in refusal("--logs", first, stranger)
    assert "2: node.id 1, which " in refusal("--logs", first, same)
    (same / "meta.properties").unlink()
    assert "meta.properties: No such file or directory" in refusal("--logs", same)


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (LOG[:-1], "bytes are left, it has"),
        (LOG[:-1] + b"x", "CRC is"),
        (LOG + LOG, "the next batch is at offset 0; expected 2"),
        (data_batch(5), "the next batch is at offset 5; expected 0"),
        (struct.pack(">qi", 0, 3) + bytes(20) + b"x", "magic 0, expected 2"),
    ],
)
def test_damaged_logs(tmp_path: Path, log: bytes, told: str) -> None:
    (directory(tmp_path / "1") / PARTITION / f"{0:020}.log").write_bytes(log)
    assert told in refusal("--logs", tmp_path / "1")


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (b"", "expected a line of JSON"),
        (b"{}\n", "data_version None, expected a whole number from 0 to 1"),
        (b"{\n", "not a line of JSON"),
        (encode_quorum_state(ElectionState(2**31 - 1), 1, VoterSet([])), "leaderEpoch 2147483647; expected 10000"),
    ],
)
def test_damaged_quorum_states(tmp_path: Path, state: bytes, told: str) -> None:
    (directory(tmp_path / "1") / PARTITION / "quorum-state").write_bytes(state)
    assert told in refusal("--logs", tmp_path / "1")
