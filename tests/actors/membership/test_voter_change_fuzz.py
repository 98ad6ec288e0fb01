"""Any requests that change the voters, one after the other: each is answered, and the quorum continues.

Half of what they say is right, so that many of them take effect; the invariants are checked all the while.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from uuid import UUID

import pytest
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, VersionRange
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER
from kraft_trio.wire.api import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, UPDATE_FEATURES, UPDATE_RAFT_VOTER
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.remove_raft_voter import RemoveRaftVoterRequest
from kraft_trio.wire.apis.update_features import FeatureUpdate, UpdateFeaturesRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import run_on_cluster
from tests.support.voter_change_requests import ask

REQUESTS = 150

EXPECTED = {
    ErrorCode.none,
    ErrorCode.invalid_request,
    ErrorCode.inconsistent_cluster_id,
    ErrorCode.not_leader_or_follower,
    ErrorCode.fenced_leader_epoch,
    ErrorCode.unknown_leader_epoch,
    ErrorCode.request_timed_out,
    ErrorCode.unsupported_version,
    ErrorCode.duplicate_voter,
    ErrorCode.voter_not_found,
    ErrorCode.invalid_update_version,
}


class Fuzzer:
    """Makes requests out of what there is in a cluster, and what there is not."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(seed)
        self._ids = tuple(cluster.machines)

    def _either(self, right: Any, *wrong: Any) -> Any:
        return right if self._random.random() < 0.75 else self._random.choice(wrong)

    def _key(self) -> tuple[int, UUID]:
        key = self._cluster.key_of(self._random.choice(self._ids))
        id = self._either(key.id, -1, 0, 99, 2**31 - 1, -(2**31))
        return id, self._either(key.directory_id, NO_DIRECTORY_ID, UUID(int=1), self._cluster.key_of(1).directory_id)

    def _listeners(self, id: int) -> Endpoints:
        right = self._cluster.endpoint_of(id) if id in self._ids else Endpoint("nowhere", 9093)
        other = self._cluster.endpoint_of(self._random.choice(self._ids))
        endpoint = self._either(right, other, Endpoint("", 9093), Endpoint("nowhere", 1), Endpoint("\0" * 300, 0))
        named = [(LISTENER, endpoint)]
        return Endpoints(self._either(named, [], [("", endpoint)], named * 2, [*named, ("SECOND", endpoint)]))

    def _versions(self) -> VersionRange:
        return self._either(VersionRange(0, 1), VersionRange(0, 0), VersionRange(5, 2), VersionRange(-1, 32767))

    def next_request(self, epoch: int) -> tuple[Any, Any]:
        """An API and a request of it."""
        id, directory_id = self._key()
        cluster_id = self._either(CLUSTER_ID, None, "", "another", "é" * 100)
        timeout_ms = self._either(500, -1, 0, 1, 20)
        match self._random.randrange(4):
            case 0:
                ack = self._random.random() < 0.5
                request = AddRaftVoterRequest(cluster_id, timeout_ms, id, directory_id, self._listeners(id), ack)
                return ADD_RAFT_VOTER, request
            case 1:
                return REMOVE_RAFT_VOTER, RemoveRaftVoterRequest(cluster_id, id, directory_id)
            case 2:
                if self._cluster.setup.kraft_version == 0 and id in self._ids:
                    directory_id = self._cluster.key_of(id).directory_id  # nobody but the voter knows better
                said_epoch = self._either(epoch, -1, epoch + 1, epoch - 1, 2**31 - 1)
                listeners, versions = self._listeners(id), self._versions()
                return UPDATE_RAFT_VOTER, UpdateRaftVoterRequest(
                    cluster_id, said_epoch, id, directory_id, listeners, versions
                )
            case _:
                feature = self._either("kraft.version", "", "metadata.version", "é" * 50)
                update = FeatureUpdate(feature, self._either(1, 0, -1, 2, 32767))
                updates = self._either((update,), (), (update, update))
                return UPDATE_FEATURES, UpdateFeaturesRequest(updates, timeout_ms, self._random.random() < 0.5)


UNTHROTTLED = {"kraft.voter.changes.burst": "10000"}


@pytest.mark.parametrize("kraft_version", [0, 1])
@pytest.mark.parametrize("seed", range(2))
def test_every_request_is_answered_and_the_quorum_goes_on(seed: int, kraft_version: int) -> None:
    async def test(cluster: Cluster) -> None:
        fuzzer = Fuzzer(cluster, seed)
        outcomes: Counter[ErrorCode] = Counter()
        for number in range(REQUESTS):
            with trio.fail_after(60):
                leader = await cluster.wait_for_leader()
                api, request = fuzzer.next_request(leader.view.epoch)
                before = leader.log.voters.voters
                try:
                    answer = await ask(cluster, leader, api, request)
                except NetworkError:
                    continue
            assert answer.error in EXPECTED, request
            outcomes[answer.error] += 1
            if answer.error not in (ErrorCode.none, ErrorCode.request_timed_out, ErrorCode.not_leader_or_follower):
                assert leader.log.voters.voters.ids == before.ids, "what is refused changes nothing"
            if number % 10 == 0:
                leader = await cluster.wait_for_leader()
                await leader.append([b"value"])
        assert outcomes[ErrorCode.none] > 5
        assert len(outcomes) > 5
        await cluster.wait_until_alike()
        leader = await cluster.wait_for_leader()
        for voter in leader.log.voters.voters:
            if leader.log.voters.kraft_version == 0:
                assert voter.id in cluster.voter_ids
            else:
                assert voter.key == cluster.key_of(voter.id)

    run_on_cluster(test, Setup(seed=seed, voters=3, observers=2, kraft_version=kraft_version, settings=UNTHROTTLED))
