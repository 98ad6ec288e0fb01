"""A follower whose log has an old address of its leader, and that finds the leader at another one."""

from __future__ import annotations

import attrs
import trio

from kraft_trio.actors.election.role_changes import judge
from kraft_trio.messages import LeaderAnsweredAt, Stamp
from kraft_trio.protocol.quorum_epoch import find_leader_at
from kraft_trio.protocol.roles import Event, Follower, Prospective, Unattached
from kraft_trio.protocol.types import Endpoint, Endpoints
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.setup import LISTENER
from tests.actors.election.test_role_changes import LEADER, NOW, STAMP
from tests.actors.election.test_role_changes import NEW as TOLD
from tests.actors.election.test_role_changes import OLD as LOGGED
from tests.actors.membership.test_update_voter import restart_elsewhere
from tests.support.on_cluster import on_cluster


@on_cluster(voters=1, observers=1, settings={"kraft.voter.gossip.enable": "false"})
async def test_restarted_follower_asks_the_leader_where_it_fetches(cluster: Cluster) -> None:
    """It has stored the epoch of the moved leader, but died before its log told the leader's new address."""
    await cluster.wait_for_leader()
    await cluster.wait_until_alike()
    follower = cluster.machines[2]
    follower.kill()
    await follower.wait_until_ended()
    await restart_elsewhere(cluster, 1)
    leader = await cluster.wait_for_leader()
    node = await follower.start()
    await node.election.view.wait_for(lambda view: (view.epoch, view.leader_id) == (leader.view.epoch, 1))
    follower.kill()
    await follower.wait_until_ended()
    node = await follower.start()
    view = node.election.view
    assert (view.value.epoch, view.value.leader_id) == (leader.view.epoch, 1)
    old = view.value.leader_endpoints.get(LISTENER)
    assert old != cluster.endpoint_of(1)
    await cluster.wait_until_alike()
    with trio.fail_after(5):
        await node.append([b"value"])
        await node.read_barrier()
    assert view.value.leader_endpoint(LISTENER) == cluster.endpoint_of(1)
    assert view.value.epoch == leader.view.epoch


OLD, NEW = Endpoint("old", 1), Endpoint("new", 1)


def test_leader_is_followed_where_it_answers() -> None:
    """The other listeners that are known of it stay, and so does what the follower knows of the epoch."""
    role = Follower(5, 1, Endpoints({"C": OLD, "D": OLD}), has_fetched=True, lost_pre_vote=True)
    found = find_leader_at(role, Endpoints({"C": NEW}))
    assert found == Follower(5, 1, Endpoints({"C": NEW, "D": OLD}), has_fetched=True)
    assert found is not None
    assert find_leader_at(found, Endpoints({"C": NEW})) is None
    assert find_leader_at(Unattached(5, 1), Endpoints({"C": NEW})) is None


def test_only_the_present_stay_learns_from_an_answer() -> None:
    now = attrs.evolve(NOW, role=Follower(3, LEADER.id, LOGGED, has_fetched=True))
    change = judge(now, LeaderAnsweredAt(STAMP, TOLD)).change
    assert change == (Event.LEADER_MOVED, Follower(3, LEADER.id, TOLD, has_fetched=True))
    assert judge(now, LeaderAnsweredAt(STAMP, LOGGED)).change is None
    assert judge(now, LeaderAnsweredAt(Stamp(3, 0), TOLD)).change is None
    assert (
        judge(attrs.evolve(now, role=Prospective(3, LEADER.id, LOGGED)), LeaderAnsweredAt(STAMP, TOLD)).change is None
    )
