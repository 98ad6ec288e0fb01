"""What each step does to a cluster; and that one that does not apply does nothing."""

from collections.abc import Awaitable, Callable, Iterable

import pytest
import trio

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation.cluster import Cluster, simulate
from kraft_trio.simulation.network.link_faults import Blocked
from kraft_trio.simulation.script.catalog import parse_step
from kraft_trio.simulation.script.step import NotAsExpected
from kraft_trio.simulation.setup import LISTENER, PORT
from kraft_trio.wire.api import DISCOVER_VOTERS, VOTE
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest
from tests.support.raw_client import RawClient


async def take(cluster: Cluster, *lines: str) -> None:
    for line in lines:
        await parse_step(line).take(cluster)


def on_cluster(main: Callable[[Cluster], Awaitable[None]], **setup: object) -> None:
    simulate(main, **setup)


def blocked_links(cluster: Cluster) -> set[tuple[int, int]]:
    """Between which nodes, in which direction, anything is lost or held up."""
    nodes = list(cluster.machines)
    return {(a, b) for a in nodes for b in nodes if a != b and cluster.network.link(f"node-{a}", f"node-{b}").blocked}


def both_ways(*pairs: tuple[int, int]) -> set[tuple[int, int]]:
    return {*pairs, *((b, a) for a, b in pairs)}


def every_pair(nodes: Iterable[int]) -> set[tuple[int, int]]:
    nodes = list(nodes)
    return {(a, b) for a in nodes for b in nodes if a != b}


@pytest.mark.parametrize(
    ("line", "links"),
    [
        ("cut 1 | 2 3", both_ways((1, 2), (1, 3))),
        ("cut 1 | 2 | 3 silent", every_pair([1, 2, 3])),
        ("isolate 3", both_ways((3, 1), (3, 2), (3, 4), (3, 5))),
        ("bridge 3 between 1 2 | 4 5", both_ways((1, 4), (1, 5), (2, 4), (2, 5))),
        ("ring 1 2 3 4 5", both_ways((1, 3), (1, 4), (2, 4), (2, 5), (3, 5))),
        ("one-way 1 -> 2", {(2, 1)}),
        ("requests-only 1 -> 2", {(2, 1)}),
        ("answers-only 1 -> 2", {(1, 2)}),
        ("clog 1 -> 2", {(1, 2)}),
    ],
)
def test_what_a_partition_cuts_and_that_it_heals(line: str, links: set[tuple[int, int]]) -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, line)
        assert blocked_links(cluster) == links
        await take(cluster, "heal")
        assert not blocked_links(cluster)

    on_cluster(main, voters=5)


def test_which_half_of_a_dialogue_is_lost() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "requests-only 1 -> 2", "answers-only 1 -> 3")
        assert cluster.network.link("node-2", "node-1").lost == Blocked.ANSWERS
        assert cluster.network.link("node-1", "node-3").lost == Blocked.REQUESTS

    on_cluster(main)


def test_partitions_are_silent_where_they_say_so_only() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "cut 1 | 2", "isolate 3 silent")
        assert cluster.network.link("node-1", "node-2").resets
        assert not cluster.network.link("node-1", "node-3").resets

    on_cluster(main)


def test_a_clog_ends_alone() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "clog 1 -> 2", "clog 2 -> 1", "unclog 1 -> 2")
        assert blocked_links(cluster) == {(2, 1)}

    on_cluster(main)


def test_the_settings_of_links() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "latency 5ms", "latency 1ms..2ms on 1 -> 2", "loss 5%", "loss 50% on 2 -> 1")
        await take(cluster, "resets 1%", "cut-frames 2%", "duplicates 3%")
        one, two, other = (cluster.network.link(f"node-{a}", f"node-{b}").settings for a, b in ((1, 2), (2, 1), (1, 3)))
        assert [settings.loss for settings in (one, two, other)] == [0.05, 0.5, 0.05]
        assert (other.reset, other.cut_frames, other.duplicates) == (0.01, 0.02, 0.03)
        source = cluster.random("test")
        assert other.latency.draw_s(source) == two.latency.draw_s(source) == 0.005
        assert 0.001 <= one.latency.draw_s(source) <= 0.002

    on_cluster(main)


def test_processes_end_and_come_back() -> None:
    async def main(cluster: Cluster) -> None:
        machine = cluster.machines[2]
        for end in ("kill 2", "crash 2", "crash 2 some", "crash 2 reordered", "stop 2"):
            await take(cluster, end)
            assert not machine.is_running
            assert machine.has_ended
            await take(cluster, end, "pause 2", "resume 2", "start 2")
            assert machine.is_running
            before = machine.node
            await take(cluster, "start 2")
            assert machine.node is before
        await take(cluster, "restart 1 2")
        assert machine.is_running
        assert machine.node is not before

    on_cluster(main)


def test_a_crash_loses_what_a_kill_does_not() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        for end, expected in (("kill", 1), ("crash", 0)):
            machine = cluster.machines[2]
            log_end = machine.replica.log_end
            leader = await cluster.wait_for_leader(other_than=machine.node)
            await take(cluster, "slow-disk 2 10s")
            await leader.append([end.encode()])
            await cluster.wait_until(lambda: machine.replica.log_end == log_end + 1)  # noqa: B023
            await take(cluster, f"{end} 2", "slow-disk 2 1ms", "isolate 2", "start 2")
            assert machine.replica.log_end == log_end + expected
            await take(cluster, "heal")
            await cluster.wait_until_alike()

    on_cluster(main)


def test_a_paused_process_takes_no_step() -> None:
    async def main(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        follower = cluster.others(leader)[0]
        log_end = follower.log.end_offset
        await take(cluster, f"pause {follower.key.id}", f"pause {follower.key.id}")
        await leader.append([b"a"])
        await trio.sleep(20)
        assert follower.log.end_offset == log_end
        await take(cluster, f"resume {follower.key.id}", f"resume {follower.key.id}")
        await cluster.wait_until_alike()
        assert follower.log.end_offset == leader.log.end_offset > log_end

    on_cluster(main)


def test_clocks() -> None:
    async def main(cluster: Cluster) -> None:
        began_s = cluster.now_s
        await take(cluster, "wait 1500ms", "at 3s", "at 1s")
        assert cluster.now_s == pytest.approx(max(3.0, began_s + 1.5))
        true, machine = cluster.machines[1], cluster.machines[2]
        await take(cluster, "drift 2 +10%", "jump-clock 2 back 1h")
        assert machine.config.election_timeout_ms == round(true.config.election_timeout_ms / 1.1)
        assert machine.wall_clock_offset_ms == -3_600_000
        await take(cluster, "drift 2 +0%", "jump-clock 2 forward 3601s")
        assert machine.wall_clock_ms() == true.wall_clock_ms() + 1000

    on_cluster(main)


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ("fail-sync 2", "a write or fsync failed"),
        ("fail-write 2", "a write or fsync failed"),
        ("full-disk 2", "no space left"),
    ],
)
def test_a_disk_that_fails_ends_the_node(line: str, failure: str) -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "elect 1", line)
        await cluster.machines[1].node.append([b"a"])
        await cluster.machines[2].wait_until_ended()
        assert failure in str(cluster.machines[2].failure)
        await take(cluster, "free-disk 2", "start 2", "settle", "expect alike")

    on_cluster(main)


@pytest.mark.parametrize("line", ["fail-sync 2", "fail-write 2"])
def test_an_error_is_for_the_process_that_runs(line: str) -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "elect 1", "kill 2", line, "start 2", "settle", 'append "a"', "settle", "expect alike")

    on_cluster(main)


def test_a_full_disk_keeps_room_for_what_it_is_told() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "full-disk 2 1000")
        assert cluster.machines[2].disk.room() == 1000
        await take(cluster, "free-disk 2")
        assert cluster.machines[2].disk.room() is None

    on_cluster(main)


def test_a_machine_loses_power_at_that_call_of_its_storage() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "elect 1")
        machine = cluster.machines[2]
        before = machine.disk.calls
        await take(cluster, "crash-in 2 3", 'append "a"', 'append "b"')
        assert not machine.is_running
        assert machine.disk.calls >= before + 3
        await take(cluster, "start 2", "settle", "expect alike")

    on_cluster(main)


def test_a_blank_disk_is_another_incarnation() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "elect 1", 'append "a"')
        machine = cluster.machines[3]
        key = machine.replica.key
        await take(cluster, "blank-disk 3")
        assert not machine.is_running
        await take(cluster, "start 3")
        assert machine.replica.key.id == 3
        assert machine.replica.key != key
        await take(cluster, "settle", "expect alike")
        assert not cluster.leader().view.voters.is_voter(machine.replica.key)

    on_cluster(main)


def test_static_voters_have_no_directory_ids_for_a_blank_disk() -> None:
    async def main(cluster: Cluster) -> None:
        with pytest.raises(NotAsExpected, match="kraft-version 0 has no directory ids"):
            await take(cluster, "blank-disk 3")

    on_cluster(main, kraft_version=0)


def test_a_stale_disk_has_what_was_there_when_it_was_copied() -> None:
    async def main(cluster: Cluster) -> None:
        machine = cluster.machines[3]
        with pytest.raises(NotAsExpected, match="stale-disk 3: no disk was kept; expected keep-disk 3 before"):
            await take(cluster, "elect 1", "stale-disk 3")
        assert machine.is_running
        await take(cluster, "stop 3", "keep-disk 3")
        log_end = machine.replica.log_end
        await take(cluster, "start 3", 'append "a"', "settle", "isolate 3", "stale-disk 3", "start 3")
        assert machine.replica.log_end == log_end
        await take(cluster, "heal", "settle", "expect alike")

    on_cluster(main, invariants=())


def test_stale_disk_is_spared_if_anything_could_be_lost() -> None:
    async def main(cluster: Cluster) -> None:
        machine = cluster.machines[3]
        kept = "stop 3", "keep-disk 3", "start 3"
        await take(cluster, "elect 1", "stale-disk 3 if-spared")
        assert machine.is_running, "no copy was kept"
        await take(cluster, *kept, 'append "a"', "settle", "kill 2", 'append "b"', "settle", "stale-disk 3 if-spared")
        assert machine.is_running, "of the others, only 1 has the last record"
        await take(cluster, "start 2", "settle", "stale-disk 3 if-spared")
        assert not machine.is_running
        await take(cluster, "start 3", "settle", "expect alike", "elect 2", *kept, "elect 1", "stale-disk 3 if-spared")
        assert machine.is_running, "the copy has forgotten a vote"
        assert cluster.facts.old_copies == {machine.replica.key}

    on_cluster(main)


def test_rot_changes_one_bit_of_a_batch_that_others_follow() -> None:
    async def main(cluster: Cluster) -> None:
        machine = cluster.machines[3]
        path = f"{machine.partition_path}/00000000000000000000.log"
        await take(cluster, "kill 3", "rot 3")
        await take(cluster, "start 3", "elect 1", 'append "a"', 'append "b"', "settle", "kill 3")
        sound = machine.disk.durable_bytes(path)
        await take(cluster, "rot 3")
        rotten = machine.disk.durable_bytes(path)
        (position,) = (i for i, (a, b) in enumerate(zip(sound, rotten, strict=True)) if a != b)
        entries = machine.replica.entries
        damaged = next(e for e in entries if e.position <= position < e.position + e.size)
        assert position - damaged.position >= 21, "what the CRC does not cover cannot be found out"
        assert damaged is not entries[-1]
        assert machine.has_bad_disk

    on_cluster(main)


def test_only_newer_builds_are_asked_for_pre_votes() -> None:
    async def main(cluster: Cluster) -> None:
        versions: set[int] = set()
        cluster.network.on_message, tell = (
            lambda message: (versions.add(message.version) if message.api_key == VOTE.key else None, tell(message)),
            cluster.network.on_message,
        )
        await take(cluster, "older 1 2 3", "start 1 2 3", "elect 1")
        assert versions == {1}
        versions.clear()
        await take(cluster, "newer 1 2 3", "restart 1 2 3", "elect 2")
        assert versions == {2}

    on_cluster(main, started=())


def test_a_stranger_gets_nothing_done_with_an_older_build_either() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "older 2", "start 1 2 3", "elect 1", "intrude 2", "settle", "expect epoch 1")
        answers = [event for event in cluster.trace.last_events([2], 400) if event.kind == "stranger"]
        assert [event.details["api"] for event in answers] == [
            "Vote", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch",
            "noise", "frame without end", "frame of negative length", "unreadable vote", "unknown API",
        ]  # fmt: skip
        assert "pre" in answers[0].cause
        assert {event.cause for event in answers[1:5]} == {"INCONSISTENT_CLUSTER_ID"}
        assert {event.cause for event in answers[5:]} <= {"closed", "not answered"}

    on_cluster(main, started=())


def test_a_lie_about_a_voter_is_believed_until_it_proves_wrong() -> None:
    """An advertisement of another disk never is."""

    async def main(cluster: Cluster) -> None:
        await take(cluster, "elect 1", "lie 1 about 2", "lie 1 about 3 at 2 other-disk")
        async with RawClient.connected(cluster, 1) as client:
            known = await client.ask(DISCOVER_VOTERS, DiscoverVotersRequest(cluster.cluster_id))
        places = {it.key.id: str(it.endpoints.get(LISTENER)) for it in known.advertisements}
        assert places == {1: "node-1:9093", 2: "nowhere:9"}

    on_cluster(main)


def test_a_moved_node_keeps_its_stable_endpoint() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "elect 1", "kill 2", "move 2", "start 2", "wait 5s", "settle")
        network = cluster.network.seen_from("client")
        stable, old = cluster.stable_endpoint_of(2), Endpoint("node-2", PORT)
        async with await network.connect(stable):
            pass
        with pytest.raises(NetworkError):
            await network.connect(old)

    on_cluster(main)


def test_a_node_that_cannot_win_is_not_elected() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "elect 1", "isolate 3", 'append "a"')
        with pytest.raises(NotAsExpected, match="elect 3: expected it to lead and to have committed within 30 s"):
            await take(cluster, "elect 3")

    on_cluster(main)


def test_a_campaign_happens_once_and_in_the_next_epoch() -> None:
    async def main(cluster: Cluster) -> None:
        await take(cluster, "elect 1", "campaign 2", "settle", "expect leader 2 epoch 2")
        await take(cluster, "kill 3", "campaign 3", "expect leader 2 epoch 2")

    on_cluster(main)
