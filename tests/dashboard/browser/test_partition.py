"""A leader that a broken network cuts off from the other voters, while everybody can still ask it."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import attrs
import pytest
import trio

from harness.quorum import Quorum
from scripts.linearizability import server_process
from scripts.linearizability.clocks import Clocks
from scripts.linearizability.proxy import PeerProxy
from scripts.linearizability.surroundings import Surroundings
from tests.dashboard.browser.reader import Reader

REPOSITORY = Path(__file__).parents[3]


@attrs.frozen
class Network:
    """The links between the nodes, on a thread of its own."""

    proxy: PeerProxy
    token: trio.lowlevel.TrioToken

    def isolate(self, node_id: int, others: set[int]) -> None:
        """Lose what this node and the others say to each other."""
        directions = [pair for other in others for pair in itertools.permutations((node_id, other))]
        trio.from_thread.run_sync(lambda: self.proxy.cut(directions, "silence"), trio_token=self.token)

    def heal(self) -> None:
        trio.from_thread.run_sync(lambda: self.proxy.heal(delivers=False), trio_token=self.token)


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    """Three voters that reach each other through `network` only."""
    made = Quorum(tmp_path, voters=3)
    try:
        yield made
    finally:
        made.kill_all()


@pytest.fixture
def network(quorum: Quorum, tmp_path: Path) -> Iterator[Network]:
    """Starts the quorum."""
    started: SimpleQueue[Network] = SimpleQueue()
    scope = trio.CancelScope()

    async def run() -> None:
        proxy = PeerProxy({node.endpoint.port: node.id for node in quorum.nodes.values()})
        with scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(proxy.serve)
                started.put(Network(proxy, trio.lowlevel.current_trio_token()))

    thread = threading.Thread(target=trio.run, args=[run])
    thread.start()
    made = started.get()
    Clocks.create(tmp_path, quorum.nodes)
    for node in quorum.nodes.values():
        surroundings = Surroundings(node.id, made.proxy.port, str(Clocks.path(tmp_path, node.id)))
        wrapper = [sys.executable, "-m", server_process.__name__, surroundings.to_json()]
        node.start(prefix=wrapper, environment={"PYTHONPATH": str(REPOSITORY)})
    for node in quorum.nodes.values():
        node.wait_until_listening()
    yield made
    trio.from_thread.run_sync(scope.cancel, trio_token=made.token)
    thread.join()


def test_a_partition(
    quorum: Quorum, network: Network, dashboard: Callable[[Quorum], str], reader: Callable[..., Reader]
) -> None:
    opened = reader(dashboard(quorum))
    opened.sees("#survival", "Survives 1 more failure now")
    old = quorum.leader().id
    others = set(quorum.nodes) - {old}
    network.isolate(old, others)
    new = quorum.leader(besides=old).id
    opened.sees("#headline", f"Node {new} leads epoch")
    opened.sees("#survival", "Survives no more failure now")
    assert f"Node {old}\t" in opened.sees("#claims-table tr", "≠ none")
    cause = opened.sees("#findings [data-code=voter-behind]", f"Voter {old} is offline")
    assert f"knows no leader: see whether it reaches node {new} at {quorum.nodes[new].endpoint}" in cause
    opened.sees("#epoch-list li", "Lost because it resigned: no progress by a majority of the voters")
    assert opened.steps == 0
    network.heal()
    opened.sees("#survival", "Survives 1 more failure now")
