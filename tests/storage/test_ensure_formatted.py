"""Formatting at each start: once, alike on all first voters, and never over something else."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import NodeView, NoLeader, QuorumDescription
from kraft_trio.config import NodeConfig
from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.formatting import ensure_formatted
from kraft_trio.protocol.types import Endpoint, OffsetAndEpoch, ReplicaKey
from kraft_trio.storage.directory.directory import partition_path, read_meta_properties
from kraft_trio.storage.disk.real_disk import RealDisk
from kraft_trio.storage.snapshots.checkpoint import read_checkpoint_voters
from tests.support.cancelling import is_cancelled_at

CLUSTER_ID = "fMCL8kv1SWm87L_Md-I2hg"
OTHER_CLUSTER_ID = "3VlsbP4DSsWlUB0_qRwDQA"
VOTERS: dict[int, Endpoint | str] = {1: "127.0.0.1:19091", 2: Endpoint("127.0.0.1", 19092), 3: "127.0.0.1:19093"}


def config_of(directory: Path, node_id: int = 1) -> NodeConfig:
    return NodeConfig(
        node_id=node_id,
        listeners=f"CONTROLLER://127.0.0.1:1909{node_id}",
        quorum_bootstrap_servers="127.0.0.1:19091",
        metadata_log_dir=directory / f"node-{node_id}",
    )


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[NoLeader | QuorumDescription]:
    """What the other voters answer; at first, nobody does."""
    answers: list[NoLeader | QuorumDescription] = [NoLeader(None, ())]

    async def describe(_self: AdminClient, timeout_ms: int = 5000) -> NoLeader | QuorumDescription:
        await trio.lowlevel.checkpoint()
        return answers[-1]

    monkeypatch.setattr(AdminClient, "describe_metadata_quorum", describe)
    return answers


@pytest.mark.usefixtures("others")
async def test_a_directory_is_formatted_once(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert await ensure_formatted(config, CLUSTER_ID, VOTERS)
    before = contents(tmp_path)
    assert not await ensure_formatted(config, CLUSTER_ID, VOTERS)
    assert contents(tmp_path) == before


@pytest.mark.usefixtures("others")
async def test_a_formatting_that_was_cancelled_can_be_repeated(tmp_path: Path) -> None:
    """At whichever checkpoint: the directory is formatted or untouched."""
    number, was_cancelled = 0, True
    while was_cancelled:
        number += 1
        directory = tmp_path / str(number)
        directory.mkdir()
        config = config_of(directory)
        was_cancelled = await is_cancelled_at(number, partial(ensure_formatted, config, CLUSTER_ID, VOTERS))
        left = contents(directory)
        assert await ensure_formatted(config, CLUSTER_ID, VOTERS) == (not left)
        assert not left or contents(directory) == left
        assert not await ensure_formatted(config, CLUSTER_ID, VOTERS)
    assert number > 3


@pytest.mark.usefixtures("others")
async def test_first_voters_agree_without_asking_each_other(tmp_path: Path) -> None:
    sets = set()
    with contextlib.closing(RealDisk()) as disk:
        for node_id in VOTERS:
            config = config_of(tmp_path, node_id)
            await ensure_formatted(config, CLUSTER_ID, VOTERS)
            state = read_checkpoint_voters(
                disk, partition_path(config.metadata_log_dir, config.topic_name), OffsetAndEpoch(0, 0)
            )
            properties = read_meta_properties(disk, config.metadata_log_dir)
            assert properties is not None
            assert state.voters.is_voter(ReplicaKey(node_id, properties.directory_id))
            sets.add(tuple(state.voters))
    assert len(sets) == 1


@pytest.mark.usefixtures("others")
async def test_a_node_that_is_no_first_voter_joins(tmp_path: Path) -> None:
    config = config_of(tmp_path, 4)
    assert await ensure_formatted(config, CLUSTER_ID, VOTERS)
    assert not any(name.endswith(".checkpoint") for name in contents(tmp_path))
    other = config_of(tmp_path / "other", 4)
    (tmp_path / "other").mkdir()
    assert await ensure_formatted(other, CLUSTER_ID)
    properties = {text for name, text in contents(tmp_path).items() if name.endswith("meta.properties")}
    assert len(properties) == 2, "only first voters have ids that others could know"


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize(
    ("changes", "cluster_id", "said"),
    [
        ({"node_id": 2, "listeners": "CONTROLLER://127.0.0.1:19092"}, CLUSTER_ID, "formatted for node 1, not for"),
        ({}, OTHER_CLUSTER_ID, f"formatted for cluster {CLUSTER_ID}, not for"),
        ({"topic_name": "other"}, CLUSTER_ID, "kraft.topic.name=other is configured"),
    ],
)
async def test_a_directory_of_something_else_is_refused(
    tmp_path: Path, changes: dict[str, object], cluster_id: str, said: str
) -> None:
    config = config_of(tmp_path)
    await ensure_formatted(config, CLUSTER_ID, VOTERS)
    before = contents(tmp_path)
    with pytest.raises(StorageError, match=said):
        await ensure_formatted(attrs.evolve(config, advertised_listeners=(), **changes), cluster_id, VOTERS)
    assert contents(tmp_path) == before


async def test_a_blank_disk_of_a_voter_that_ran_is_refused(
    tmp_path: Path, others: list[NoLeader | QuorumDescription]
) -> None:
    others.append(NoLeader(CLUSTER_ID, (NodeView(Endpoint("127.0.0.1", 19092), 2, None, 7),)))
    with pytest.raises(StorageError, match="is in epoch 7"):
        await ensure_formatted(config_of(tmp_path), CLUSTER_ID, VOTERS)
    assert contents(tmp_path) == {}


@pytest.mark.usefixtures("others")
async def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    for cluster_id, voters, said in (
        ("x", VOTERS, "cluster_id: "),
        (CLUSTER_ID, {**VOTERS, 2: "b"}, "first_voters: 'b' has no port"),
        (CLUSTER_ID, {**VOTERS, 1: "127.0.0.1:5"}, "node 1 at 127.0.0.1:5, but it announces"),
        (CLUSTER_ID, {**VOTERS, -2: "b:9093"}, "first_voters: node id -2, expected a whole number from 0 to"),
        (CLUSTER_ID, {**VOTERS, 2**31: "b:9093"}, "first_voters: node id 2147483648, expected a whole number"),
        (CLUSTER_ID, {}, "first_voters: empty, expected one voter or more, or None for a node that joins"),
    ):
        with pytest.raises(ConfigError, match=said):
            await ensure_formatted(config, cluster_id, voters)
    assert contents(tmp_path) == {}


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"config": {"node_id": 1}}, "config: dict, expected NodeConfig"),
        ({"cluster_id": 5}, "cluster_id: 5, expected text"),
        ({"first_voters": list(VOTERS.values())}, "first_voters: list, expected a mapping from node ids to addresses"),
        ({"first_voters": {str(id): one for id, one in VOTERS.items()}}, "first_voters: node id '1', expected an int"),
        ({"first_voters": {True: VOTERS[1]}}, "first_voters: node id True, expected an int"),
        ({"first_voters": {**VOTERS, 2: 19092}}, "first_voters: node 2 at 19092, expected text or an Endpoint"),
    ],
)
async def test_arguments_of_another_type_are_named(tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    arguments = {"config": config_of(tmp_path), "cluster_id": CLUSTER_ID, "first_voters": VOTERS} | wrong
    with pytest.raises(TypeError, match=said):
        await ensure_formatted(**arguments)
    assert contents(tmp_path) == {}


async def test_a_static_voter_must_announce_the_port_that_the_others_have(tmp_path: Path) -> None:
    def config(port: int) -> NodeConfig:
        return NodeConfig(
            node_id=1,
            listeners=f"CONTROLLER://127.0.0.1:{port}",
            quorum_voters="1@localhost:19091,2@127.0.0.1:19092",
            metadata_log_dir=tmp_path / "node",
        )

    message = "controller.quorum.voters: node 1 at localhost:19091, but it announces CONTROLLER://127.0.0.1:9"
    with pytest.raises(ConfigError, match=message):
        await ensure_formatted(config(9), CLUSTER_ID)
    assert contents(tmp_path) == {}
    assert await ensure_formatted(config(19091), CLUSTER_ID)
