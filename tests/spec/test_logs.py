"""Stopped replicas' files are held against the specification: true ones, and some that no protocol makes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import attrs
import pytest

from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.storage.batches.control_records import LeaderChange, VotersRecord
from scripts.model_checking.tlc import TlcMissingError, jar
from scripts.trace_checking.checking import check
from scripts.trace_checking.retelling import retold
from scripts.trace_checking.steps import NotTraceableError, steps_of
from scripts.trace_checking.written import Replica, Written

KEYS = {node_id: ReplicaKey(node_id, UUID(int=node_id)) for node_id in (1, 2, 3, 4)}


def voters(*node_ids: int) -> VotersRecord:
    return VotersRecord(VoterSet([Voter(KEYS[node_id]) for node_id in node_ids]))


FOUNDING = Written(0, 3, 1, (LeaderChange(1, (1, 2, 3), (1, 2)), voters(1, 2, 3)))
FIRST = Written(3, 5, 1)
UNCOMMITTED = Written(5, 6, 1)
SECOND = Written(5, 6, 3, (LeaderChange(2, (1, 2, 3), (2, 3)),))
GROWN = Written(6, 7, 3, (voters(1, 2, 3, 4),))
LAST = Written(7, 8, 3)
LOG = (FOUNDING, FIRST, SECOND, GROWN, LAST)

Logs = Mapping[int, Replica]

TRUE = {
    node_id: Replica(node_id, str(key), LOG, epoch=3, leader=2, voted=2 if node_id == 3 else None)
    for node_id, key in KEYS.items()
}


def with_logs(*log: Written) -> Logs:
    return {node_id: attrs.evolve(replica, log=log) for node_id, replica in TRUE.items()}


def changed(node_id: int, logs: Logs = TRUE, **values: object) -> Logs:
    return {**logs, node_id: attrs.evolve(logs[node_id], **values)}


POSSIBLE: Mapping[str, Logs] = {
    "all have the log": TRUE,
    "a voter was away from the second epoch on": changed(1, log=(FOUNDING, FIRST), epoch=1, leader=1),
    "a leader's last record reached nobody": changed(1, log=(FOUNDING, FIRST, UNCOMMITTED), epoch=1, leader=1),
    "an election was lost after the last record": changed(
        3, changed(1, epoch=4, leader=None, voted=1), epoch=4, leader=None, voted=1
    ),
}

IMPOSSIBLE: Mapping[str, tuple[Logs, int, str]] = {
    "a voter has voted twice": (changed(3, leader=None, voted=1), 3, "vote"),
    "a minority has elected a leader": (
        with_logs(FOUNDING, FIRST, attrs.evolve(SECOND, control=(LeaderChange(2, (1, 2, 3), (2,)),))),
        2,
        "leads",
    ),
    "an observer has led": (
        with_logs(FOUNDING, FIRST, attrs.evolve(SECOND, control=(LeaderChange(4, (1, 2, 3), (2, 3)),))),
        4,
        "role",
    ),
    "two voters were changed at once": (
        with_logs(FOUNDING, FIRST, SECOND, attrs.evolve(GROWN, control=(voters(2, 3, 4),))),
        2,
        "append",
    ),
    "a committed record is gone": (
        changed(
            *(3, changed(1, log=(FOUNDING, FIRST, UNCOMMITTED), epoch=1, leader=1)),
            **{"log": (FOUNDING, FIRST, UNCOMMITTED), "leader": None, "voted": 2},
        ),
        3,
        "vote",
    ),
}


def test_possible_and_impossible_logs() -> None:
    try:
        tlc_jar = jar(fetch=False)
    except TlcMissingError as missing:
        pytest.skip(str(missing))
    logs = [*POSSIBLE.values(), *(logs for logs, _, _ in IMPOSSIBLE.values())]
    verdicts = check(tlc_jar, [steps_of(retold(list(replicas.values()))) for replicas in logs]).verdicts
    for name, verdict in zip(POSSIBLE, verdicts, strict=False):
        assert verdict.refusal is None, (name, verdict.refusal.told())
    for (name, (_, node_id, kind)), verdict in zip(IMPOSSIBLE.items(), verdicts[len(POSSIBLE) :], strict=True):
        assert verdict.refusal is not None, name
        step = verdict.refusal.step
        assert (step.event.node, step.kind) == (node_id, kind), (name, verdict.refusal.told())


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotTraceableError, match="node 1 has led epoch 1; expected its directory, too"):
        retold([replica for replica in TRUE.values() if replica.id != 1])
    with pytest.raises(NotTraceableError, match="epoch 3 begins at offset 7 without its leader"):
        retold(list(with_logs(FOUNDING, FIRST, LAST).values()))
    with pytest.raises(NotTraceableError, match="no log begins with the leader of its first epoch"):
        retold(list(with_logs().values()))
