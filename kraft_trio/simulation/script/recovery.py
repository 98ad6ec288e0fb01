"""The end of a random run: the faults stop, first for a majority and then for all nodes, and the run demands progress.

A connected majority must elect a leader within a bounded number of election timeouts, and commit.  That leader must
stay, whatever the minority does.  After everything is healed, pending changes must commit everywhere or vanish
everywhere, and observers must catch up.  An unmet demand is a violation like any other.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import combinations
from typing import Final, TypeVar

import trio

from kraft_trio.client.claims import ask_all
from kraft_trio.diagnosis.finding import Finding
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.errors import KraftError
from kraft_trio.node import Node
from kraft_trio.protocol.roles import Resigned, Role
from kraft_trio.protocol.types import ReplicaKey, directory_id_to_text
from kraft_trio.simulation.clients.administrator import Request
from kraft_trio.simulation.cluster import LOOK_EVERY_S, Cluster
from kraft_trio.simulation.deterministic import sleep
from kraft_trio.simulation.facts.history import ADD_VOTER, EXECUTE, REMOVE_VOTER, Outcome
from kraft_trio.simulation.facts.voter_sets import is_member
from kraft_trio.simulation.script.step import NotAsExpected, Step
from kraft_trio.simulation.script.steps.network import answers_only, one_way, requests_only

T = TypeVar("T")

PROGRESS: Final = "once the faults have stopped, a majority makes progress"

COMMITS: Final = "while a majority of the voters reach each other, something commits"

ELECTION_TIMEOUTS: Final = 20
"""A healed majority must have a leader that has committed within this many of the longest timeouts."""

BROKEN_LINKS: Final = 0.3
"""The share of the runs in which links around the majority stay broken at first, and only commits are demanded."""

STABLE_TIMEOUTS: Final = 5
"""The leader must then stay for this many of the longest timeouts."""

CATCH_UP_S: Final = 120.0
"""All nodes must have the same log this many virtual seconds after everything is healed."""

REASSIGNED_WITHIN_S: Final = 120.0
"""A reassignment must then reach its target within this many virtual seconds."""

CHANGED_WITHIN_S: Final = 30.0
"""The leader must then make a voter change within this many virtual seconds."""

MOST_SUCCESSORS: Final = 10
"""The most leaders that may be removed or hand over after the faults have stopped, by requests from before."""

LOSS: Final = "the loss of a majority's disks is told, and the survivors are spared"

_A_MAJORITY_IS_BLANK: Final = "a majority of the voters has blank disks"

CHANGES: Final = "once the faults have stopped, voter changes are made"


async def recover(cluster: Cluster) -> None:
    """End the faults and make the demands.  The first unmet one is a violation.  The clients are stopped on the way."""
    await _Recovery(cluster).run()


async def demand_commit(cluster: Cluster, within_s: float) -> None:
    """Wait until an append that a client begins after this call is acknowledged.  A violation if none is in time."""
    operations = cluster.history.operations
    begins, began_at_s = len(operations), cluster.now_s
    while not any(o.kind in ("append", EXECUTE) and o.outcome is Outcome.OK for o in operations[begins:]):
        if cluster.now_s >= began_at_s + within_s:
            asked = f"clients have written since {began_at_s:.3f} s, and a majority of the voters reach each other"
            running = "; ".join(_described(cluster, node) for node in sorted(cluster.machines))
            facts = (asked, f"{within_s:.1f} s later: {running}")
            cluster.violate(COMMITS, facts, sorted(cluster.machines))
            await trio.sleep_forever()
        await sleep(LOOK_EVERY_S)


class _Recovery:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._random: random.Random = cluster.random("recovery")
        self._appends = 0

    async def run(self) -> None:
        cluster = self._cluster
        cluster.administrator.stop()
        if cluster.survivability.needs_gossip():
            # A build that is too old for pre-votes does not gossip either.
            for machine in cluster.machines.values():
                cluster.network.uncap_versions(machine.host)
        if cluster.has_moves or cluster.random("announced addresses").random() < 0.5:
            cluster.misadvertise(cluster.machines, end=True)
        if cluster.survivability.is_lost():
            await self._be_told_of_the_loss()
            return
        majority = self._pick_majority()
        if self._random.random() < BROKEN_LINKS:
            await self._go_on_with_broken_links(majority)
        await self._end_faults(majority)
        within_s = ELECTION_TIMEOUTS * self._longest_timeout_s()
        for _ in range(MOST_SUCCESSORS):
            leader = await self._demand(partial(self._lasting_leader, majority), within_s, majority)
            majority = await self._let_minority_act(majority, leader)
            if await self._keeps_leading(leader, STABLE_TIMEOUTS * self._longest_timeout_s()):
                break
        else:
            lost = f"{MOST_SUCCESSORS} leaders, one after the other, were removed or handed over"
            await self._violated(PROGRESS, ("no more changes have been asked for", lost), majority)
        everyone = sorted(cluster.machines)
        # Voters find a leader that announces a dead address, but clients have nothing else to go by.
        cluster.misadvertise(cluster.machines, end=True)
        await self._end_faults(everyone)
        if cluster.workload is not None:
            await cluster.workload.stop()
            await cluster.workload.demand_progress()
        await self._demand(self._be_alike, CATCH_UP_S, everyone)
        if cluster.survivability.is_guarded:
            await self._end_reassignment()
            await self._change_voters()
            await self._demand(self._be_alike, CATCH_UP_S, everyone)
        cluster.checker.finished()
        cluster.compare_machines()

    async def _be_told_of_the_loss(self) -> None:
        """A majority has blank disks: nobody may lead, and those that have theirs and `explain` must say which miss.

        Their advice must spare the survivors, which have the only copy.
        """
        cluster, everyone = self._cluster, sorted(self._cluster.machines)
        await self._end_faults(everyone)
        if cluster.workload is not None:
            await cluster.workload.stop()
        within_s = ELECTION_TIMEOUTS * self._longest_timeout_s()
        await self._demand(partial(cluster.wait_until, self._survivors_tell, within_s=math.inf), within_s, everyone)
        leader = cluster.leader()
        if leader is not None:
            await self._violated(LOSS, (_A_MAJORITY_IS_BLANK, f"{leader.key} leads"), everyone)
        with trio.fail_after(within_s):
            await self._explain_the_loss(everyone)
        cluster.checker.finished()

    def _survivors_tell(self) -> bool:
        """Whether each voter with its disk says of all the others whose disks are missing."""
        cluster = self._cluster
        for node in cluster.nodes.values():
            voters = node.log.voters.voters
            if voters.is_voter(node.key) and node.key.id not in cluster.setup.witnesses:
                missing = [voter.key for voter in voters if voter.key != cluster.key_of(voter.id)]
                if list(node.tree.other_disks.among(voters)) != missing:
                    return False
        return len(cluster.nodes) == len(cluster.machines)

    async def _explain_the_loss(self, everyone: list[int]) -> None:
        """Ask as `kraft metadata-quorum explain` does."""
        cluster = self._cluster
        if not any(len(node.log.voters.voters) for node in cluster.nodes.values()):
            return  # Nobody is left who knows the voters.
        endpoints = [cluster.endpoint_of(node) for node in everyone]
        network = cluster.network.seen_from("explain")
        timeout_ms = round(1000 * self._longest_timeout_s())
        situation = await ask_all(network, endpoints, timeout_ms=timeout_ms, fetch_timeout_ms=timeout_ms)
        found = findings(situation)
        told = " ".join(finding.text for finding in found if finding.code == "other-disks")
        voters = cluster.survivability.committed()
        missing = [voter.key for voter in voters if voter.key != cluster.key_of(voter.id)]
        for key in missing:
            if directory_id_to_text(key.directory_id) not in told:
                await self._violated(
                    LOSS, (f"the disk of {key} is missing", f"explain says: {_texts(found)}"), everyone
                )
        if any(word in finding.text for finding in found for word in ("Stop it", "Stop the", "ormat a", "ormat it")):
            await self._violated(LOSS, (_A_MAJORITY_IS_BLANK, f"explain advises: {_texts(found)}"), everyone)

    def _pick_majority(self) -> list[int]:
        """Nodes that have kept their disks, and are a majority of every voter set that may be in force."""
        cluster = self._cluster
        survivability = cluster.survivability
        members = [node for node in survivability.members() if not cluster.machines[node].has_bad_disk]
        order = self._random.sample(members, len(members))
        least = next((size for size in range(1, len(order) + 1) if survivability.has_majority(order[:size])), None)
        if least is None:
            raise NotAsExpected(
                f"recover: the nodes {', '.join(map(str, members)) or 'none'} that have kept their disks are no "
                f"majority of every set of voters that may be in force: {'; '.join(map(str, survivability.possible()))}"
            )
        chosen = order[: self._random.randint(least, len(order))]
        # Nodes that cannot become voters are included at random; they must disturb nobody.
        others = [node for node in sorted(cluster.machines) if node not in members]
        return sorted([*chosen, *(node for node in others if self._random.random() < 0.3)])

    async def _go_on_with_broken_links(self, majority: Collection[int]) -> None:
        """Demand a commit while every link around the majority is broken in some way."""
        cluster = self._cluster
        others = [node for node in cluster.machines if node not in majority]
        if cluster.workload is None or not others or cluster.network.has_caps:
            return
        cluster.network.end_faults()
        cluster.misadvertise(cluster.machines, end=True)
        for step in broken_links(self._random, majority, others):
            await step.take(cluster)
        await self._end_faults_of(majority)
        await demand_commit(cluster, CLIQUE_TIMEOUTS * self._longest_timeout_s())

    def _longest_timeout_s(self) -> float:
        """The longest timeout of the machines, including the drift of their clocks."""
        configs = [machine.config for machine in self._cluster.machines.values()]
        return max(max(2 * c.election_timeout_ms, c.fetch_timeout_ms, c.request_timeout_ms) for c in configs) / 1000

    async def _end_faults(self, nodes: Collection[int]) -> None:
        """Let these nodes run on working machines, and reach each other but no other node."""
        cluster = self._cluster
        cluster.network.end_faults()
        others = [node for node in cluster.machines if node not in nodes]
        if others:
            cluster.partition(nodes, others, silent=self._random.random() < 0.5)
        await self._end_faults_of(nodes)

    async def _end_faults_of(self, nodes: Collection[int]) -> None:
        cluster = self._cluster
        for node in self._random.sample(sorted(nodes), len(nodes)):
            machine = cluster.machines[node]
            machine.end_faults()
            if machine.node is not None and machine.node.tree.disk_failure is not None:
                # It ends by itself as soon as it has handed over.
                await machine.wait_until_ended()
            if machine.is_running and machine.disk.has_failed:
                # It is going to end, but on a slow disk it may not know this yet.
                machine.kill()
                await machine.wait_until_ended()
            if machine.has_bad_disk:
                machine.kill()
                await machine.wait_until_ended()
                machine.replace_disk()
            elif machine.has_moved:
                machine.kill()
                await machine.wait_until_ended()
            if not machine.is_running:
                await machine.start()

    async def _demand(self, progress: Callable[[], Awaitable[T]], within_s: float, nodes: Collection[int]) -> T:
        """The result of `progress`, if it comes in time; otherwise a violation."""
        began_at_s = self._cluster.now_s
        with trio.move_on_after(within_s):
            return await progress()
        running = ", ".join(_described(self._cluster, node) for node in nodes)
        asked = f"nodes {', '.join(map(str, nodes))} have been without faults since {began_at_s:.3f} s"
        await self._violated(PROGRESS, (asked, f"{within_s:.1f} s later: {running}"), nodes)
        raise AssertionError("unreachable: a violation ends the run")

    async def _violated(self, title: str, facts: tuple[str, str], nodes: Collection[int]) -> None:
        cluster = self._cluster
        cluster.violate(title, facts, sorted(nodes))
        await trio.sleep_forever()

    async def _lasting_leader(self, majority: Collection[int]) -> Node:
        """A leader from the majority that has committed a new value, and that no other node may lawfully replace.

        A node that has won a pre-vote before, or that passes for a build without pre-votes, may campaign in a later
        epoch and win.  It may not have stored that epoch yet, on a slow disk.  So every node of the majority that may
        campaign must follow the leader.
        """
        while True:
            leader = await self._lead_and_commit(majority)
            while not self._all_follow(majority, leader):
                await sleep(LOOK_EVERY_S)
                if self._cluster.leader() is not leader:
                    break
            else:
                return leader

    def _all_follow(self, nodes: Collection[int], leader: Node) -> bool:
        running = self._cluster.nodes
        return all((node := running.get(id)) is not None and _needs_no_other(node, leader) for id in nodes)

    async def _lead_and_commit(self, majority: Collection[int]) -> Node:
        """A leader from the majority that has committed a new value."""
        cluster = self._cluster
        while True:
            leader = cluster.leader()
            if leader is None or leader.key.id not in majority:
                await sleep(LOOK_EVERY_S)
                continue
            try:
                await self._append(leader)
            except KraftError:
                await sleep(LOOK_EVERY_S)
                continue
            if cluster.leader() is leader:
                return leader

    async def _append(self, leader: Node) -> None:
        """Raises KraftError."""
        cluster = self._cluster
        if cluster.agreement is not None:
            command = cluster.agreement.sample.random_command(self._random)
            execute = cluster.history.invoke(EXECUTE, client="recovery", via=leader.key.id)
            execute.command = command
            await leader.append([command])
            return
        value = b"recovery/%d" % self._appends
        self._appends += 1
        append = cluster.history.invoke("append", client="recovery", values=[value], via=leader.key.id)
        try:
            offsets = await leader.append([value])
        except KraftError as error:
            cluster.history.lose(append, str(error))
            raise
        cluster.history.succeed(append, offsets=offsets)

    async def _let_minority_act(self, majority: list[int], leader: Node) -> list[int]:
        """Let the other nodes do something while the leader must stay: nothing, send requests in vain, or take part.

        A node that has been in a later epoch already, or that passes for a build without pre-votes, may lawfully
        replace the leader once.  If there is one, the others stay cut off.  Returns the nodes that take part now.
        """
        cluster, others = self._cluster, [node for node in self._cluster.machines if node not in majority]
        ways = self._random.choice(("cut off", "unheard answers", "unheard questions", "connected"))
        if ways == "cut off" or not all(self._is_no_later(node, leader.view.epoch) for node in others):
            return majority
        cluster.network.heal()
        if ways == "connected":
            await self._end_faults_of(others)
            return sorted(cluster.machines)
        for node in others:
            for member in majority:
                ends = cluster.machines[node].host, cluster.machines[member].host
                cluster.network.requests_only(*(ends if ways == "unheard answers" else reversed(ends)))
        return majority

    def _is_no_later(self, node: int, epoch: int) -> bool:
        machine = self._cluster.machines[node]
        stored = None if machine.replica is None else machine.replica.durable_election_state()
        later = stored is not None and stored.epoch > epoch
        view = None if machine.node is None else machine.node.view
        return not later and not (view is not None and view.epoch > epoch) and not self._cluster.network.has_caps

    async def _keeps_leading(self, leader: Node, for_s: float) -> bool:
        """Whether the leader stays, as an epoch has only one.

        False if it was removed, asked to hand over or asked to resign, or if it may have handed over to the voters that
        it was reassigned to.  Otherwise it is a violation if another node leads, or the same one in another epoch.
        """
        before = leader.view.stamp
        with trio.move_on_after(for_s):
            after = await leader.election.view.wait_for(lambda view: view.stamp != before)
            if self._was_asked_for(after.role) or (leader.key.id, before.epoch) in self._cluster.resignations:
                return False
            await trio.sleep_forever()
        now = self._cluster.leader()
        if now is not leader or now.view.stamp != before:
            if not is_member(self._cluster.survivability.committed(), leader.key) or self._may_hand_over(leader):
                return False
            found = "nobody" if now is None else f"{now.key.id} in epoch {now.view.epoch}"
            kept = f"{leader.key.id} led epoch {before.epoch}, reaches a majority and nothing fails"
            await self._violated(PROGRESS, (kept, f"{for_s:.1f} s later {found} leads"), [leader.key.id])
        return True

    def _was_asked_for(self, role: Role) -> bool:
        """Whether a leader that takes this role hands over to a voter of an administrator's choice."""
        successors = role.preferred_successors[:1] if isinstance(role, Resigned) else ()
        return any(self._cluster.administrator.may_still_transfer_to(voter.id) for voter in successors)

    def _may_hand_over(self, leader: Node) -> bool:
        return any(leader.key.id not in target for target in self._cluster.survivability.targets())

    async def _end_reassignment(self) -> None:
        """Demand that a reassignment reaches its target.  Cancel one to a replica that has lost its disk."""
        cluster = self._cluster
        target = self._target()
        if all(cluster.key_of(key.id) == key for key in target):
            await self._demand(self._reach_target, REASSIGNED_WITHIN_S, sorted(cluster.machines))
        else:
            await self._made(cluster.administrator.cancel_reassignment(at=None, within_s=CHANGED_WITHIN_S))
        await self._demand(self._be_alike, CATCH_UP_S, sorted(cluster.machines))

    def _target(self) -> tuple[ReplicaKey, ...]:
        """The target in the newest committed voter set."""
        sets = self._cluster.facts.committed.voter_sets
        return sets[-1].target if sets else ()

    async def _reach_target(self) -> None:
        await self._cluster.wait_until(lambda: not self._target(), within_s=math.inf)

    async def _change_voters(self) -> None:
        """Ask for one more voter change: add a controller that is no voter, or remove a voter.  Static voters are
        upgraded."""
        cluster, admin = self._cluster, self._cluster.administrator
        if not any(node.log.voters.kraft_version for node in cluster.nodes.values()):
            await self._made(admin.upgrade(at=None, within_s=CHANGED_WITHIN_S))
            return
        voters = cluster.survivability.committed()
        node_id = self._random.choice(sorted(cluster.machines))
        voter = voters.get(node_id)
        if voter is None:
            if "controller" in cluster.nodes[node_id].config.process_roles:
                await self._made(admin.add_voter(node_id, at=None, within_s=CHANGED_WITHIN_S))
        elif len(voters) > 1 and cluster.survivability.can_spare(voter.key):
            await self._made(admin.remove_voter(node_id, at=None, within_s=CHANGED_WITHIN_S))

    async def _made(self, request: Request) -> None:
        operation = request.operation
        with trio.move_on_after(2 * CHANGED_WITHIN_S):
            await request.ended.wait()
        key = operation.voter
        # A replica that joins by itself also removes the one whose disk it replaces.
        is_so_already = (
            operation.kind in (ADD_VOTER, REMOVE_VOTER)
            and key is not None
            and is_member(self._cluster.survivability.committed(), key) == (operation.kind == ADD_VOTER)
        )
        if operation.outcome is not Outcome.OK and not is_so_already:
            asked = f"everybody has the same log, and an administrator asks: {operation.asks}"
            await self._violated(CHANGES, (asked, str(operation)), sorted(self._cluster.machines))

    async def _be_alike(self) -> None:
        cluster = self._cluster
        await cluster.wait_until(lambda: len(cluster.nodes) == len(cluster.machines), within_s=math.inf)
        await cluster.wait_until_alike(within_s=math.inf)


def _texts(found: Iterable[Finding]) -> str:
    return " | ".join(finding.text for finding in found)


def _described(cluster: Cluster, node_id: int) -> str:
    machine = cluster.machines[node_id]
    if machine.node is None:
        return f"{node_id} does not run ({machine.failure or 'no failure'})"
    log, view = machine.node.log, machine.node.view
    return (
        f"{node_id} is {type(view.role).__name__} in epoch {view.epoch}, leader {view.leader_id}, "
        f"log end {log.end}, synced to {log.synced_end_offset}, high watermark {log.high_watermark}"
    )


def _needs_no_other(node: Node, leader: Node) -> bool:
    """Whether the node has everything that the leader committed, and so hears from it, or cannot campaign.

    To follow the leader is not enough: a fetch timeout from before may still run out.  A node on a blank disk cannot
    campaign, and may know only nodes that are cut off.
    """
    follows = (node.view.epoch, node.view.leader_id) == (leader.view.epoch, leader.key.id)
    has_all = node.log.end_offset >= (leader.high_watermark or 0)
    return (follows and has_all) or not _may_campaign(node)


def _may_campaign(node: Node) -> bool:
    """Whether it is in its newest voter set, or in the previous one and does not know that the newest is committed."""
    history = node.log.voters
    offset = history.voters_offset
    sets = [history.voters]
    if offset is not None and offset in history.uncommitted(node.log.high_watermark):
        sets.append(history.voters_at(offset - 1))
    return any(is_member(voters, node.key) for voters in sets)


CLIQUE_TIMEOUTS: Final = 30
"""Something must commit within this many of the longest timeouts while a majority of the voters reach each other."""


def broken_links(source: random.Random, clique: Collection[int], others: Collection[int]) -> Iterator[Step]:
    """Break each direction of each link that is not inside the clique, in one of the possible ways or not at all.

    Each call prefers some of these ways, because a way shows its effect only if most links break like that.
    """
    kinds: list[Callable[[tuple[int, int]], Step] | None] = [one_way, _hard_one_way, requests_only, answers_only, None]
    weights = [math.exp(source.uniform(-2.0, 2.0)) for _ in kinds]
    for pair in combinations(sorted({*clique, *others}), 2):
        if pair[0] in clique and pair[1] in clique:
            continue
        for link in (pair, (pair[1], pair[0])):
            (kind,) = source.choices(kinds, weights)
            if kind is not None:
                yield kind(link)


def _hard_one_way(link: tuple[int, int]) -> Step:
    return one_way(link, hard=True)
