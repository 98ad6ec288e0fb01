"""Steps that state what must be true now, by default of all running nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final

from kraft_trio.client.claims import ask_all
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.node import Node as RunningNode
from kraft_trio.protocol.roles import Leader
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.script.parts import Epoch, Node, Nodes, Offset, Quoted, QuotedList, choice
from kraft_trio.simulation.script.step import NotAsExpected, step_called
from kraft_trio.storage.batches.batch import decode_records, peek_header

ASKED_MS: Final = 2000


def _running(cluster: Cluster, nodes: tuple[int, ...] | None) -> dict[int, RunningNode]:
    """The given nodes, or all that run.  Raises NotAsExpected if one of them does not run."""
    running = cluster.nodes
    for node in nodes or ():
        if node not in running:
            raise NotAsExpected(f"node {node} does not run; expected it to")
    return {node: running[node] for node in nodes or running}


def _expect_of_each(
    cluster: Cluster, nodes: tuple[int, ...] | None, what: str, expected: object, look: Callable[[RunningNode], object]
) -> None:
    for node_id, node in _running(cluster, nodes).items():
        found = look(node)
        if found != expected:
            raise NotAsExpected(f"the {what} of node {node_id} is {found}; expected {expected}")


@step_called("expect leader")
async def expect_leader(cluster: Cluster, node: Node, *, epoch: Epoch | None = None) -> None:
    """This node leads, in the highest epoch."""
    leader = cluster.leader()
    if leader is None:
        raise NotAsExpected(f"nobody leads; expected node {node}")
    found = leader.key.id, leader.view.epoch
    if found != (node, found[1] if epoch is None else epoch):
        expected = f"node {node}" + ("" if epoch is None else f" in epoch {epoch}")
        raise NotAsExpected(f"node {found[0]} leads in epoch {found[1]}; expected {expected}")


@step_called("expect finding")
async def expect_finding(cluster: Cluster, code: Quoted) -> None:
    """`kraft metadata-quorum explain` has a finding with this code, asked of all running nodes."""
    named = [cluster.endpoint_of(node_id) for node_id in cluster.nodes]
    situation = await ask_all(
        cluster.network.seen_from("client-explain"), named, timeout_ms=ASKED_MS, fetch_timeout_ms=ASKED_MS
    )
    found = [finding.code for finding in findings(situation)]
    if code not in found:
        raise NotAsExpected(f"explain finds {', '.join(found) or 'nothing'}; expected {code}")


@step_called("expect no leader")
async def expect_no_leader(cluster: Cluster, *, among: Nodes | None = None) -> None:
    """No node leads, or no node of these."""
    for node_id, node in _running(cluster, among).items():
        if isinstance(node.view.role, Leader):
            raise NotAsExpected(f"node {node_id} leads in epoch {node.view.epoch}; expected it not to lead")


@step_called("expect epoch")
async def expect_epoch(cluster: Cluster, epoch: Epoch, *, on: Nodes | None = None) -> None:
    """The nodes are in this epoch."""
    _expect_of_each(cluster, on, "epoch", epoch, lambda node: node.view.epoch)


@step_called("expect role")
async def expect_role(
    cluster: Cluster,
    role: Annotated[str, choice("Unattached", "Prospective", "Candidate", "Follower", "Leader", "Resigned")],
    *,
    on: Nodes | None = None,
) -> None:
    """The nodes have this role."""
    _expect_of_each(cluster, on, "role", role, lambda node: type(node.view.role).__name__)


@step_called("expect log-end")
async def expect_log_end(cluster: Cluster, offset: Offset, *, on: Nodes | None = None) -> None:
    """The nodes' logs end at this offset (exclusive)."""
    _expect_of_each(cluster, on, "log end", offset, lambda node: node.log.end_offset)


@step_called("expect committed")
async def expect_committed(cluster: Cluster, offset: Offset, *, on: Nodes | None = None) -> None:
    """The nodes know this high watermark (exclusive); 0 if they know none."""
    _expect_of_each(cluster, on, "high watermark", offset, lambda node: node.high_watermark or 0)


@step_called("expect values")
async def expect_values(cluster: Cluster, values: QuotedList, *, on: Nodes | None = None) -> None:
    """The nodes' logs hold exactly these values."""
    _expect_of_each(cluster, on, "log", list(values), values_of)


@step_called("expect voters")
async def expect_voters(cluster: Cluster, voters: Nodes, *, on: Nodes | None = None) -> None:
    """The newest voter set in the nodes' logs has these voters."""
    expected = tuple(sorted(voters))
    _expect_of_each(cluster, on, "voter set", expected, lambda node: node.log.voters.voters.ids)


@step_called("expect alike")
async def expect_alike(cluster: Cluster, nodes: Nodes | None = None) -> None:
    """The nodes' logs are equal, durable, and known to be committed."""
    running = _running(cluster, nodes)
    for node_id, node in running.items():
        ends = (node.log.end_offset, node.log.synced_end_offset, node.high_watermark)
        if len(set(ends)) > 1:
            raise NotAsExpected(
                f"node {node_id} has a log to {ends[0]}, synced to {ends[1]}, committed to {ends[2]}; "
                "expected all of it synced and committed"
            )
    logs = {
        node_id: [entry.chain for entry in cluster.replica_of(node.key).entries] for node_id, node in running.items()
    }
    first = min(logs)
    for node_id, log in logs.items():
        if log != logs[first]:
            raise NotAsExpected(f"nodes {first} and {node_id} have different logs; expected the same")


@step_called("expect running")
async def expect_running(cluster: Cluster, nodes: Nodes) -> None:
    """Only these nodes run."""
    running = tuple(cluster.nodes)
    if running != tuple(sorted(nodes)):
        raise NotAsExpected(f"nodes {_list(running)} run; expected {_list(sorted(nodes))}")


@step_called("expect ended")
async def expect_ended(cluster: Cluster, node: Node, reason: Quoted) -> None:
    """The node's process ended with an error that contains this text."""
    machine = cluster.machines[node]
    if machine.is_running:
        raise NotAsExpected(f"node {node} runs; expected it to have ended")
    if machine.failure is None:
        raise NotAsExpected(f"node {node} has ended without an error; expected {reason!r}")
    if reason not in str(machine.failure):
        raise NotAsExpected(f"node {node} has ended with {str(machine.failure)!r}; expected {reason!r}")


@step_called("expect outcome")
async def expect_outcome(
    cluster: Cluster, value: Quoted, outcome: Annotated[str, choice("ok", "fail", "unknown", "pending")]
) -> None:
    """What a client was told about an append, or an administrator about a change such as "add-voter 4"."""
    operation = cluster.history.append_of(value.encode()) or cluster.history.request(value)
    if operation is None:
        raise NotAsExpected(f"{value!r} was never appended or asked for; expected it to be {outcome}")
    if operation.outcome.value != outcome:
        what = f"the append of {value!r}" if operation.values else repr(value)
        found = f"{operation.outcome.value}{f' ({operation.problem})' if operation.problem else ''}"
        raise NotAsExpected(f"{what} is {found}; expected {outcome}")


def values_of(node: RunningNode) -> list[str]:
    """The values in a node's log, without the protocol's own records."""
    values: list[str] = []
    for _, batch in node.log.iter_batches(0, node.log.end_offset):
        header = peek_header(batch)
        if not header.is_control:
            values += [(record.value or b"").decode("utf-8", "replace") for record in decode_records(batch, 0, header)]
    return values


def _list(nodes: Iterable[int]) -> str:
    return ", ".join(map(str, nodes)) or "none"
