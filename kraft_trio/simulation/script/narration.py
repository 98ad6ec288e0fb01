"""The output below a step of a script: what has happened since the last step, in words, made from the trace.

First come the events in order, each with its cause, and no line twice.  Then comes what has changed: which leader the
nodes follow, and how far each log goes.  Times are left out, because only the order counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import attrs

from kraft_trio.messages import QuorumView
from kraft_trio.protocol.roles import Prospective
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.script.tellings import REPLICA_KEY, described, telling_of
from kraft_trio.tracing.events import TraceEvent


@attrs.frozen
class NodeSummary:
    """The state of one node between two steps.  The last lines of an output show what has changed."""

    leader_id: int | None
    epoch: int
    log_end: int
    """Exclusive, like the high watermark."""
    high_watermark: int | None
    voters: tuple[str, ...]
    """Each voter as its id, with a prime for each earlier disk of the machine."""

    def log(self) -> str:
        if self.log_end == 0:
            return "log empty"
        if self.high_watermark is None:
            return f"log to {self.log_end}, nothing known to be committed"
        committed = "all committed" if self.log_end == self.high_watermark else f"committed to {self.high_watermark}"
        return f"log to {self.log_end}, {committed}"

    def leadership(self) -> str:
        leader = "no leader" if self.leader_id is None else f"leader {self.leader_id}"
        return f"{leader} in epoch {self.epoch}"

    def voter_set(self) -> str:
        return f"voters {' '.join(self.voters) or 'unknown'}"


class Narrator:
    """Listens to the trace of one cluster from the start; `told` returns the lines since the previous call."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lines: dict[str, None] = {}
        self._summaries: dict[int, NodeSummary] = {}
        self._pending_told: set[str] = set()
        self.pushed: int | None = None
        """The node that the step makes campaign, which the output need not repeat."""
        cluster.trace.listeners.append(self._heard)

    def told(self) -> list[str]:
        """The new lines.  Operations without an answer are named once."""
        for operation in self._cluster.history.operations:
            if operation.is_pending and operation.name not in self._pending_told:
                self._pending_told.add(operation.name)
                self._say(f"{described(operation)} not answered yet")
        lines = [*self._lines, *self._changes()]
        self._lines = {}
        return lines

    def _say(self, line: str) -> None:
        self._lines[REPLICA_KEY.sub(self._incarnation, line)] = None

    def _incarnation(self, match: re.Match[str]) -> str:
        """A replica key as its id, with a prime for each earlier disk of the machine."""
        node_id = int(match[1])
        keys = [str(replica.key) for replica in self._cluster.facts.replicas if replica.key.id == node_id]
        return match[1] + "'" * keys.index(match[0]) if match[0] in keys else match[0]

    def _heard(self, event: TraceEvent) -> None:
        tell = telling_of(event)
        is_pushed = self.pushed is not None and event.node == self.pushed
        if tell is not None and not (is_pushed and event.details.get("role") in {"Prospective", "Candidate"}):
            for line in tell(self._cluster, event):
                self._say(line)

    # What has changed

    def _changes(self) -> Iterator[str]:
        before, now = self._summaries, self._present()
        self._summaries = {**before, **now}
        changed = {node: summary for node, summary in now.items() if before.get(node) != summary}
        for describe in (NodeSummary.leadership, NodeSummary.log, NodeSummary.voter_set):
            yield from _grouped(changed, before, describe)

    def _present(self) -> dict[int, NodeSummary]:
        present: dict[int, NodeSummary] = {}
        for node_id, node in self._cluster.nodes.items():
            view = node.view
            present[node_id] = NodeSummary(
                _known_leader(view),
                view.epoch,
                node.log.end_offset,
                node.high_watermark,
                tuple(REPLICA_KEY.sub(self._incarnation, str(voter.key)) for voter in view.voters),
            )
        return present


def _known_leader(view: QuorumView) -> int | None:
    """The leader of the node's epoch.  A node that doubts its leader, and asks for pre-votes, still knows it."""
    return view.role.leader_id if isinstance(view.role, Prospective) else view.leader_id


def _grouped(
    changed: Mapping[int, NodeSummary],
    before: Mapping[int, NodeSummary],
    describe: Callable[[NodeSummary], str],
) -> Iterator[str]:
    """One line for each description that is new for some nodes, with all of those nodes."""
    nodes_by_text: dict[str, list[int]] = {}
    for node_id, summary in changed.items():
        text = describe(summary)
        if node_id not in before or describe(before[node_id]) != text:
            nodes_by_text.setdefault(text, []).append(node_id)
    for text, nodes in nodes_by_text.items():
        yield f"{' '.join(map(str, nodes))}: {text}"
