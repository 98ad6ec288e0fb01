"""A quorum that authorizes: its nodes elect and commit, and a certificate is worth what the rules say."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog.testing
import trio

from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.security.client_network import client_network
from kraft_trio.security.watched_files import reload_all
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    BEGIN_QUORUM_EPOCH,
    DESCRIBE_QUORUM,
    END_QUORUM_EPOCH,
    FETCH,
    FETCH_SNAPSHOT,
    METADATA,
    REMOVE_RAFT_VOTER,
    UPDATE_RAFT_VOTER,
    VOTE,
    Api,
)
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchPartition, FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataTopic
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.apis.vote import VoteRequest
from kraft_trio.wire.connection import Connection
from kraft_trio.wire.error_codes import ErrorCode
from tests.security.test_mutual_tls import bootstrap, configs, nodes_of
from tests.support.certificates import authority, issue, tls_keys, write_client_file, write_store

RULES = """
[[allow]]
principal = "User:operator"
operations = ["DESCRIBE"]
"""
TOPIC = "__cluster_metadata"
FORGED_EPOCH = 99


def forged(described: QuorumDescription) -> list[tuple[Api[Any, Any], Any]]:
    """What would depose the leader, or change the voters, if it came from a replica or an administrator."""
    cluster_id, victim = described.cluster_id, described.voters[1].key
    new, removed = ReplicaKey(9, UUID(int=9)), described.voters[2].key
    endpoints = Endpoints({"CONTROLLER": Endpoint("localhost", 1)})
    return [
        (VOTE, VoteRequest(cluster_id, victim.id, TOPIC, 0, new, FORGED_EPOCH, victim.directory_id, FORGED_EPOCH, 99)),
        (BEGIN_QUORUM_EPOCH, BeginQuorumEpochRequest(cluster_id, 2, TOPIC, 0, victim.directory_id, 9, FORGED_EPOCH)),
        (END_QUORUM_EPOCH, EndQuorumEpochRequest(cluster_id, TOPIC, 0, described.leader_id, described.leader_epoch)),
        (FETCH, FetchRequest(cluster_id, victim.id, 0, partitions=(ahead(victim, described.leader_epoch),))),
        (FETCH_SNAPSHOT, FetchSnapshotRequest(cluster_id, victim.id, 1000, TOPIC, 0, 1, OffsetAndEpoch(0, 0), 0)),
        (
            UPDATE_RAFT_VOTER,
            UpdateRaftVoterRequest(
                cluster_id, described.leader_epoch, victim.id, victim.directory_id, endpoints, VersionRange(0, 1)
            ),
        ),
        (ADD_RAFT_VOTER, AddRaftVoterRequest(cluster_id, 1000, new.id, new.directory_id, endpoints)),
        (REMOVE_RAFT_VOTER, RemoveRaftVoterRequest(cluster_id, removed.id, removed.directory_id)),
    ]


def ahead(voter: ReplicaKey, epoch: int) -> FetchPartition:
    """The position of a voter that holds more than there is: it would move the high watermark."""
    return FetchPartition(TOPIC, UUID(int=1), 0, 2**40, 1000, epoch, epoch, replica_directory_id=voter.directory_id)


async def test_each_certificate_may_do_what_the_rules_say(tmp_path: Path) -> None:
    acls = tmp_path / "acl.toml"
    voters = "".join(f'[[voter]]\nprincipal = "User:node-{n}"\nnode-id = {n}\n' for n in (1, 2, 3))
    acls.write_text(RULES + voters)
    made = configs(
        tmp_path,
        range(1, 4),
        {
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:node-1;User:node-2;User:node-3",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/",
            "kraft.acl.file": str(acls),
        },
    )
    network = {
        name: client_network(write_client_file(tmp_path / f"{name}.properties", tls_keys(tmp_path, name)))
        for name in ("operator", "stranger", "node-1")
    }
    with structlog.testing.capture_logs() as lines:
        async with nodes_of(made) as nodes:
            for node in nodes:
                assert await node.append([b"x"])
            operator = AdminClient(bootstrap(made[0]), request_timeout_ms=30_000, network=network["operator"])
            described = await operator.describe_metadata_quorum()
            assert isinstance(described, QuorumDescription)
            with pytest.raises(VoterChangeError, match="CLUSTER_AUTHORIZATION_FAILED"):
                await operator.remove_metadata_voter(ReplicaKey(3, described.voters[2].key.directory_id))
            endpoint = made[1].advertised_listeners[0].endpoint
            strange = await Connection.negotiated(await network["stranger"].connect(endpoint), "c", 1 << 20)
            refused = await strange.request(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
            assert refused.error is ErrorCode.cluster_authorization_failed
            told = await strange.request(METADATA, MetadataRequest((MetadataTopic(TOPIC),)))
            assert [topic.error for topic in told.topics] == [ErrorCode.topic_authorization_failed]
            assert len(told.brokers) == 3
            for api, request in forged(described):
                answer = await strange.request(api, request)
                assert answer.error is ErrorCode.cluster_authorization_failed, api.name
            await strange.aclose()
            impostor = await Connection.negotiated(await network["node-1"].connect(endpoint), "c", 1 << 20)
            key = described.voters[2].key
            vote = VoteRequest(
                described.cluster_id,
                2,
                TOPIC,
                0,
                key,
                FORGED_EPOCH,
                described.voters[1].key.directory_id,
                FORGED_EPOCH,
                9,
            )
            answer = await impostor.request(VOTE, vote)
            assert answer.error is ErrorCode.cluster_authorization_failed
            await impostor.aclose()
            assert (await operator.describe_metadata_quorum()) is not None
            assert await nodes[0].append([b"y"])
            assert {node.view.epoch for node in nodes} == {described.leader_epoch}
            metrics = [node.metrics.values() for node in nodes]
            assert [values["number-of-voters"] for values in metrics] == [3] * 3
            counted = sum(float(values["number-of-denied-requests"]) for values in metrics)
            denied = [(line["principal"], line["api"]) for line in lines if line["event"] == "request denied"]
            assert counted == len(denied) > len(forged(described))
    assert {("User:operator", "RemoveRaftVoter"), ("User:stranger", "DescribeQuorum")} <= set(denied)
    assert [api for principal, api in denied if principal.startswith("User:node-")] == ["Vote"]


async def test_node_with_the_certificate_of_another_follows_once_it_has_its_own(tmp_path: Path) -> None:
    """Without a restart: the leader knows a connection by the certificate that it began with."""
    acls = tmp_path / "acl.toml"
    acls.write_text("".join(f'[[voter]]\nprincipal = "User:node-{n}"\nnode-id = {n}\n' for n in (1, 2, 3)))
    rules = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:node-1;User:node-2;User:node-3",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/",
        "kraft.acl.file": str(acls),
    }
    made = configs(tmp_path, range(1, 4), rules)
    write_store(tmp_path / "node-3.pem", issue(authority(), "node-2"))
    async with nodes_of(made) as nodes:
        await nodes[0].append([b"x"])
        with trio.fail_after(30):
            while "cluster_authorization_failed" not in (nodes[2].tree.fetch_problem.reason or ""):  # noqa: ASYNC110
                await trio.sleep(0.01)
        write_store(tmp_path / "node-3.pem", issue(authority(), "node-3"))
        reload_all(nodes[2].tree.security_files)
        with trio.fail_after(30):
            while nodes[2].tree.fetch_problem.reason is not None:  # noqa: ASYNC110
                await trio.sleep(0.01)
            assert await nodes[2].append([b"y"])
