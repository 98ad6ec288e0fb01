"""Steps that state what must be true now, by default of all running nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from kraft_trio.client.claims import ask_all
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.protocol.roles import Leader
from kraft_trio.simulation.script.parts import EPOCH, NODE, NODES, OFFSET, QUOTED, QUOTED_LIST, choice
from kraft_trio.simulation.script.steps import NotAsExpected, Step, part, register
from kraft_trio.storage.batches.batch import decode_records, peek_header

if TYPE_CHECKING:
    from kraft_trio.node import Node
    from kraft_trio.simulation.cluster import Cluster


ASKED_MS: Final = 2000


def _running(cluster: Cluster, nodes: tuple[int, ...] | None) -> dict[int, Node]:
    """The given nodes, or all that run.  Raises NotAsExpected if one of them does not run."""
    running = cluster.nodes
    for node in nodes or ():
        if node not in running:
            raise NotAsExpected(f"node {node} does not run; expected it to")
    return {node: running[node] for node in nodes or running}


def _expect_of_each(
    cluster: Cluster, nodes: tuple[int, ...] | None, what: str, expected: object, look: Callable[[Node], object]
) -> None:
    for node_id, node in _running(cluster, nodes).items():
        found = look(node)
        if found != expected:
            raise NotAsExpected(f"the {what} of node {node_id} is {found}; expected {expected}")


@register
@attrs.frozen
class ExpectLeader(Step):
    """This node leads, in the highest epoch."""

    verb: ClassVar[str] = "expect leader"
    node: int = part(NODE)
    epoch: int | None = part(EPOCH, after="epoch", default=None)

    async def take(self, cluster: Cluster) -> None:
        leader = cluster.leader()
        if leader is None:
            raise NotAsExpected(f"nobody leads; expected node {self.node}")
        found = leader.key.id, leader.view.epoch
        if found != (self.node, found[1] if self.epoch is None else self.epoch):
            expected = f"node {self.node}" + ("" if self.epoch is None else f" in epoch {self.epoch}")
            raise NotAsExpected(f"node {found[0]} leads in epoch {found[1]}; expected {expected}")


@register
@attrs.frozen
class ExpectFinding(Step):
    """`kraft metadata-quorum explain` has a finding with this code, asked of all running nodes."""

    verb: ClassVar[str] = "expect finding"
    code: str = part(QUOTED)

    async def take(self, cluster: Cluster) -> None:
        named = [cluster.endpoint_of(node_id) for node_id in cluster.nodes]
        situation = await ask_all(
            cluster.network.seen_from("client-explain"), named, timeout_ms=ASKED_MS, fetch_timeout_ms=ASKED_MS
        )
        found = [finding.code for finding in findings(situation)]
        if self.code not in found:
            raise NotAsExpected(f"explain finds {', '.join(found) or 'nothing'}; expected {self.code}")


@register
@attrs.frozen
class ExpectNoLeader(Step):
    """No node leads, or no node of these."""

    verb: ClassVar[str] = "expect no leader"
    nodes: tuple[int, ...] | None = part(NODES, after="among", default=None)

    async def take(self, cluster: Cluster) -> None:
        for node_id, node in _running(cluster, self.nodes).items():
            if isinstance(node.view.role, Leader):
                raise NotAsExpected(f"node {node_id} leads in epoch {node.view.epoch}; expected it not to lead")


@register
@attrs.frozen
class ExpectEpoch(Step):
    """The nodes are in this epoch."""

    verb: ClassVar[str] = "expect epoch"
    epoch: int = part(EPOCH)
    nodes: tuple[int, ...] | None = part(NODES, after="on", default=None)

    async def take(self, cluster: Cluster) -> None:
        _expect_of_each(cluster, self.nodes, "epoch", self.epoch, lambda node: node.view.epoch)


@register
@attrs.frozen
class ExpectRole(Step):
    """The nodes have this role."""

    verb: ClassVar[str] = "expect role"
    role: str = part(choice("Unattached", "Prospective", "Candidate", "Follower", "Leader", "Resigned"))
    nodes: tuple[int, ...] | None = part(NODES, after="on", default=None)

    async def take(self, cluster: Cluster) -> None:
        _expect_of_each(cluster, self.nodes, "role", self.role, lambda node: type(node.view.role).__name__)


@register
@attrs.frozen
class ExpectLogEnd(Step):
    """The nodes' logs end at this offset (exclusive)."""

    verb: ClassVar[str] = "expect log-end"
    offset: int = part(OFFSET)
    nodes: tuple[int, ...] | None = part(NODES, after="on", default=None)

    async def take(self, cluster: Cluster) -> None:
        _expect_of_each(cluster, self.nodes, "log end", self.offset, lambda node: node.log.end_offset)


@register
@attrs.frozen
class ExpectCommitted(Step):
    """The nodes know this high watermark (exclusive); 0 if they know none."""

    verb: ClassVar[str] = "expect committed"
    offset: int = part(OFFSET)
    nodes: tuple[int, ...] | None = part(NODES, after="on", default=None)

    async def take(self, cluster: Cluster) -> None:
        _expect_of_each(cluster, self.nodes, "high watermark", self.offset, lambda node: node.high_watermark or 0)


@register
@attrs.frozen
class ExpectValues(Step):
    """The nodes' logs hold exactly these values."""

    verb: ClassVar[str] = "expect values"
    values: tuple[str, ...] = part(QUOTED_LIST)
    nodes: tuple[int, ...] | None = part(NODES, after="on", default=None)

    async def take(self, cluster: Cluster) -> None:
        expected = list(self.values)
        _expect_of_each(cluster, self.nodes, "log", expected, values_of)


@register
@attrs.frozen
class ExpectVoters(Step):
    """The newest voter set in the nodes' logs has these voters."""

    verb: ClassVar[str] = "expect voters"
    voters: tuple[int, ...] = part(NODES)
    nodes: tuple[int, ...] | None = part(NODES, after="on", default=None)

    async def take(self, cluster: Cluster) -> None:
        expected = tuple(sorted(self.voters))
        _expect_of_each(cluster, self.nodes, "voter set", expected, lambda node: node.log.voters.voters.ids)


@register
@attrs.frozen
class ExpectAlike(Step):
    """The nodes' logs are equal, durable, and known to be committed."""

    verb: ClassVar[str] = "expect alike"
    nodes: tuple[int, ...] | None = part(NODES, default=None)

    async def take(self, cluster: Cluster) -> None:
        nodes = _running(cluster, self.nodes)
        for node_id, node in nodes.items():
            ends = (node.log.end_offset, node.log.synced_end_offset, node.high_watermark)
            if len(set(ends)) > 1:
                raise NotAsExpected(
                    f"node {node_id} has a log to {ends[0]}, synced to {ends[1]}, committed to {ends[2]}; "
                    "expected all of it synced and committed"
                )
        logs = {
            node_id: [entry.chain for entry in cluster.replica_of(node.key).entries] for node_id, node in nodes.items()
        }
        first = min(logs)
        for node_id, log in logs.items():
            if log != logs[first]:
                raise NotAsExpected(f"nodes {first} and {node_id} have different logs; expected the same")


@register
@attrs.frozen
class ExpectRunning(Step):
    """Only these nodes run."""

    verb: ClassVar[str] = "expect running"
    nodes: tuple[int, ...] = part(NODES)

    async def take(self, cluster: Cluster) -> None:
        running = tuple(cluster.nodes)
        if running != tuple(sorted(self.nodes)):
            raise NotAsExpected(f"nodes {_list(running)} run; expected {_list(sorted(self.nodes))}")


@register
@attrs.frozen
class ExpectEnded(Step):
    """The node's process ended with an error that contains this text."""

    verb: ClassVar[str] = "expect ended"
    node: int = part(NODE)
    reason: str = part(QUOTED)

    async def take(self, cluster: Cluster) -> None:
        machine = cluster.machines[self.node]
        if machine.is_running:
            raise NotAsExpected(f"node {self.node} runs; expected it to have ended")
        if machine.failure is None:
            raise NotAsExpected(f"node {self.node} has ended without an error; expected {self.reason!r}")
        if self.reason not in str(machine.failure):
            raise NotAsExpected(f"node {self.node} has ended with {str(machine.failure)!r}; expected {self.reason!r}")


@register
@attrs.frozen
class ExpectOutcome(Step):
    """What a client was told about an append, or an administrator about a change such as "add-voter 4"."""

    verb: ClassVar[str] = "expect outcome"
    value: str = part(QUOTED)
    outcome: str = part(choice("ok", "fail", "unknown", "pending"))

    async def take(self, cluster: Cluster) -> None:
        operation = cluster.history.append_of(self.value.encode()) or cluster.history.request(self.value)
        if operation is None:
            raise NotAsExpected(f"{self.value!r} was never appended or asked for; expected it to be {self.outcome}")
        if operation.outcome.value != self.outcome:
            what = f"the append of {self.value!r}" if operation.values else repr(self.value)
            found = f"{operation.outcome.value}{f' ({operation.problem})' if operation.problem else ''}"
            raise NotAsExpected(f"{what} is {found}; expected {self.outcome}")


def values_of(node: Node) -> list[str]:
    """The values in a node's log, without the protocol's own records."""
    values: list[str] = []
    for _, batch in node.log.iter_batches(0, node.log.end_offset):
        header = peek_header(batch)
        if not header.is_control:
            values += [(record.value or b"").decode("utf-8", "replace") for record in decode_records(batch, 0, header)]
    return values


def _list(nodes: object) -> str:
    return ", ".join(map(str, nodes)) or "none"  # type: ignore[call-overload]
