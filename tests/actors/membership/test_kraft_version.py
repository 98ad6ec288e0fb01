"""kraft.version: from static voters to those in the log, live (KIP-853 "UpdateFeatures", "Upgrade KRaft protocol")."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
import trio

from kraft_trio.actors.context.replica_progress import OBSERVER_FORGOTTEN_AFTER_S
from kraft_trio.actors.replication import replica_fetch
from kraft_trio.node import Node
from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey, VersionRange
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from kraft_trio.storage.batches.batch import decode_control_batch
from kraft_trio.storage.batches.control_records import KRaftVersion, VotersRecord
from kraft_trio.wire.api import API_VERSIONS, UPDATE_FEATURES
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.update_features import FeatureUpdate, UpdateFeaturesRequest, UpgradeType
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import FORGED, STRANGER, TOPIC, RawClient
from tests.support.voter_change_requests import (
    add_voter,
    ask,
    beside,
    elected,
    held,
    remove_voter,
    until_asked,
    update_voter,
    upgrade,
)


@on_cluster(kraft_version=0, observers=1)
async def test_the_upgrade_writes_version_and_voters_in_one_batch(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(1)  # UpdateVoter has come from everybody
    assert (await upgrade(cluster, leader)).error == ErrorCode.none
    *_, (header, batch) = [
        (header, batch) for header, batch in leader.log.iter_batches(0, leader.log.end_offset) if header.is_control
    ]
    expected = VoterSet(cluster.config_of(id).as_voter(cluster.key_of(id).directory_id) for id in cluster.voter_ids)
    records = [record for _, record in decode_control_batch(batch, 0, header)]
    assert records == [KRaftVersion(1), VotersRecord(expected)]
    await cluster.wait_until(lambda: all(node.log.voters.kraft_version == 1 for node in cluster.nodes.values()))

    cluster.machines[leader.key.id].kill()
    successor = await cluster.wait_for_leader(other_than=leader)
    path = f"/data/{TOPIC}-0/quorum-state"
    state = json.loads(cluster.machines[successor.key.id].disk.read_bytes(path).splitlines()[0])
    assert (state["data_version"], state["leaderId"]) == (1, successor.key.id)
    await cluster.machines[leader.key.id].start()
    await cluster.wait_until_alike()
    assert (await remove_voter(cluster, successor, leader.key)).error == ErrorCode.none, "the voters are dynamic now"


@on_cluster(kraft_version=0)
async def test_an_update_after_the_upgrade_is_a_record(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(1)
    key = cluster.others(leader)[0].key
    await upgrade(cluster, leader)
    more = Endpoints({LISTENER: cluster.endpoint_of(key.id), "SECOND": Endpoint("second", 1)})
    end = leader.log.end_offset
    assert (await update_voter(cluster, leader, key, listeners=more)).error == ErrorCode.none
    assert leader.log.end_offset > end


@on_cluster(kraft_version=0)
async def test_a_voter_that_has_told_nothing_is_in_the_way(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    silent = cluster.others(leader)[0]
    cluster.machines[silent.key.id].kill()
    await cluster.machines[silent.key.id].wait_until_ended()
    cluster.machines[leader.key.id].kill()
    await cluster.machines[leader.key.id].wait_until_ended()
    await cluster.machines[leader.key.id].start()
    leader = await cluster.wait_for_leader()
    await trio.sleep(1)
    refused = await upgrade(cluster, leader)
    assert refused.error == ErrorCode.invalid_update_version
    assert f"voter {silent.key.id} has not told its directory id yet" in str(refused.error_message)
    await cluster.machines[silent.key.id].start()
    await trio.sleep(3)
    assert (await upgrade(cluster, leader)).error == ErrorCode.none


@on_cluster(kraft_version=0)
async def test_a_replica_that_does_not_support_it_is_named(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(1)
    old = cluster.others(leader)[0].key
    await update_voter(cluster, leader, old, kraft_versions=VersionRange(0, 0))
    broker = ReplicaKey(9, UUID(int=9))
    leader.observer_supports(broker, VersionRange(0, 0))
    refused = await upgrade(cluster, leader)
    assert refused.error == ErrorCode.invalid_update_version
    assert f"voter {old} supports 0 to 0" in str(refused.error_message)
    assert f"observer {broker} supports 0 to 0" in str(refused.error_message)
    assert leader.log.voters.kraft_version == 0
    leader.observer_supports(broker, None)
    await update_voter(cluster, leader, old)
    assert (await upgrade(cluster, leader)).error == ErrorCode.none


@on_cluster(kraft_version=0, invariants=FORGED)
async def test_an_observers_fetch_tells_what_it_supports(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(1)
    async with RawClient.connected(cluster, leader.key.id) as client:

        async def fetch(versions: VersionRange) -> None:
            epoch = leader.view.epoch
            await client.fetch(0, epoch=epoch, last_fetched_epoch=0, replica=STRANGER, kraft_versions=versions)

        await fetch(VersionRange(0, 0))
        refused = await upgrade(cluster, leader)
        assert refused.error == ErrorCode.invalid_update_version
        assert f"observer {STRANGER} supports 0 to 0" in str(refused.error_message)
        await fetch(VersionRange(0, 1))
        assert (await upgrade(cluster, leader)).error == ErrorCode.none


@on_cluster(kraft_version=0, observers=1, started=(1, 2, 3))
async def test_observers_tell_what_they_support(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The application's word takes precedence, and an observer that has left does not matter."""
    leader = await cluster.wait_for_leader()
    await trio.sleep(1)
    monkeypatch.setattr(replica_fetch, "SUPPORTED_KRAFT_VERSIONS", VersionRange(0, 0))
    observer = (await cluster.machines[4].start()).key
    await cluster.wait_until_alike()
    refused = await upgrade(cluster, leader, validate_only=True)
    assert refused.error_message == f"kraft.version 1: observer {observer} supports 0 to 0"
    leader.observer_supports(observer, VersionRange(0, 1))
    assert (await upgrade(cluster, leader, validate_only=True)).error == ErrorCode.none
    leader.observer_supports(observer, None)
    assert (await upgrade(cluster, leader, validate_only=True)).error == ErrorCode.invalid_update_version
    await cluster.machines[4].stop()
    await trio.sleep(OBSERVER_FORGOTTEN_AFTER_S)
    assert (await upgrade(cluster, leader)).error == ErrorCode.none


@pytest.mark.parametrize("level", [0, 2, -1])
@on_cluster()
async def test_other_versions_are_refused(cluster: Cluster, level: int) -> None:
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    refused = await upgrade(cluster, leader, level)
    assert refused.error == ErrorCode.invalid_update_version
    assert f"kraft.version {level}" in str(refused.error_message)
    assert leader.log.end_offset == end


@pytest.mark.parametrize("kind", [UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE])
@on_cluster(kraft_version=0)
async def test_a_downgrade_never_upgrades(cluster: Cluster, kind: UpgradeType) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(1)
    request = UpdateFeaturesRequest((FeatureUpdate("kraft.version", 1, kind),))
    refused = await ask(cluster, leader, UPDATE_FEATURES, request)
    assert refused.error == ErrorCode.invalid_update_version
    assert "that is no downgrade" in str(refused.error_message)
    assert leader.log.voters.kraft_version == 0


@on_cluster()
async def test_the_version_that_there_is_needs_nothing(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    end = leader.log.end_offset
    assert (await upgrade(cluster, leader)).error == ErrorCode.none
    assert leader.log.end_offset == end


@on_cluster(kraft_version=0)
async def test_to_validate_changes_nothing(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await trio.sleep(1)
    end = leader.log.end_offset
    assert (await upgrade(cluster, leader, validate_only=True)).error == ErrorCode.none
    assert leader.log.end_offset == end


@on_cluster()
async def test_other_features_are_not_known(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    assert (await upgrade(cluster, leader, feature="metadata.version")).error == ErrorCode.invalid_request
    nothing = await ask(cluster, leader, UPDATE_FEATURES, UpdateFeaturesRequest(()))
    assert nothing.error == ErrorCode.invalid_request
    twice = UpdateFeaturesRequest((FeatureUpdate("kraft.version", 1), FeatureUpdate("kraft.version", 1)))
    assert (await ask(cluster, leader, UPDATE_FEATURES, twice)).error == ErrorCode.invalid_request
    assert (await upgrade(cluster, leader, timeout_ms=0)).error == ErrorCode.invalid_request


@on_cluster()
async def test_a_follower_says_who_leads(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    refused = await upgrade(cluster, cluster.others(leader)[0])
    assert refused.error == ErrorCode.not_controller, "Kafka's admin client looks for the leader again"
    assert f"node {leader.key.id} leads" in str(refused.error_message)


@on_cluster(kraft_version=0)
async def test_the_upgrade_waits_for_the_epoch(cluster: Cluster) -> None:
    leader = await elected(cluster)
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            asked = beside(nursery, upgrade, cluster, leader)
            await until_asked(0.5)
            assert leader.log.voters.kraft_version == 0
            assert not asked.answered.is_set()
        await asked.wait()


@on_cluster(kraft_version=0, observers=1)
async def test_a_version_that_is_not_committed_yet_adds_nobody(cluster: Cluster) -> None:
    leader = await cluster.wait_for_leader()
    cluster.machines[4].kill()
    cluster.note_upgrade()
    await cluster.machines[4].start()
    await trio.sleep(1)
    async with trio.open_nursery() as nursery:
        with held(cluster, leader):
            asked = beside(nursery, upgrade, cluster, leader)
            await until_asked()
            assert leader.log.voters.kraft_version == 1, "in force when appended"
            assert (await finalized(cluster, leader)) == 0, "finalized when committed"
            addition = beside(nursery, add_voter, cluster, leader, cluster.key_of(4))
            await until_asked()
            assert leader.log.voters.voters.ids == (1, 2, 3)
        assert (await asked.wait()).error == ErrorCode.none
        assert (await addition.wait()).error == ErrorCode.none
    assert (await finalized(cluster, leader)) == 1


async def finalized(cluster: Cluster, node: Node) -> int | None:
    """The finalized kraft.version that ApiVersions shows; None where it says that it does not know."""
    told = await ask(cluster, node, API_VERSIONS, ApiVersionsRequest())
    if told.finalized_features_epoch < 0:
        assert not told.finalized_features
        return None
    assert told.finalized_features_epoch == node.view.epoch
    return next((feature.level for feature in told.finalized_features if feature.name == "kraft.version"), 0)


@on_cluster(started=(1,))
async def test_who_knows_nothing_committed_names_no_finalized_version(cluster: Cluster) -> None:
    """Not even that of the bootstrap checkpoint."""
    assert cluster.nodes[1].log.voters.kraft_version == 1
    assert (await finalized(cluster, cluster.nodes[1])) is None


@on_cluster(kraft_version=0)
async def test_an_address_that_nobody_reaches_is_not_in_the_upgrade(cluster: Cluster) -> None:
    """KAFKA-20661: what static voters tell becomes their entry for good with the upgrade, so it is tried as well."""
    leader = await cluster.wait_for_leader()
    await trio.sleep(1)
    key = cluster.others(leader)[0].key
    nowhere = Endpoints({LISTENER: Endpoint("nowhere", 1)})
    assert (await update_voter(cluster, leader, key, listeners=nowhere)).error == ErrorCode.request_timed_out
    assert (await upgrade(cluster, leader)).error == ErrorCode.none
    assert {voter.id: voter.endpoints.get(LISTENER) for voter in leader.log.voters.voters} == {
        id: cluster.endpoint_of(id) for id in cluster.voter_ids
    }
