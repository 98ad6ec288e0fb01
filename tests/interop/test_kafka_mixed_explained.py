"""`explain` of two of Kafka's controllers and a witness: what they answer, and that the simulator's answer the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import trio

from harness.kafka import kafka_version
from harness.witness_cluster import JVM_SECONDS, KAFKAS, NODES, WITNESS, WitnessCluster
from kraft_trio.client.claims import Told, ask_node
from kraft_trio.client.quorum_question import refused_fetch
from kraft_trio.protocol.types import Endpoint
from kraft_trio.simulation import Cluster, Setup
from kraft_trio.wire.api import API_VERSIONS, FETCH
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.network import Network
from kraft_trio.wire.tcp_network import TcpNetwork
from tests.situations.kafkas import SERVED
from tests.situations.mixed import TWO_AND_A_WITNESS
from tests.situations.site import QUIET_S, Site
from tests.support.on_cluster import run_on_cluster

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(kafka_version() < (4, 1), reason="the simulator's controllers are those of Kafka 4"),
]

ANSWER_MS: Final = 2500
Answers = dict[str, dict[str, Any]]


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., WitnessCluster]]:
    made: list[WitnessCluster] = []

    def make(**options: object) -> WitnessCluster:
        made.append(WitnessCluster(tmp_path, **options))  # type: ignore[arg-type]
        return made[0]

    yield make
    for cluster in made:
        cluster.stop()


async def answers(network: Network, endpoints: dict[int, Endpoint], active: int) -> Answers:
    """What each controller that answers tells, by what it was at first.  Of offsets and epochs, whether it does."""
    names = {active: "active", sum(KAFKAS) - active: "standby", WITNESS: "witness", None: None}
    told: dict[int, Told] = {id: await ask_node(network, endpoints[id], ANSWER_MS) for id in KAFKAS}
    return {
        str(names[id]): {
            "node": names[one.claim.node_id],
            "leader": names[one.claim.leader_id],
            "registered": _sorted(names, one.claim.registered_ids),
            "voters": _sorted(names, one.claim.voter_ids),
            "named": _sorted(names, [id for id, _ in one.brokers]),
            "describes": one.description is not None,
            "kraft.version": one.claim.kraft_version,
            "is witness": one.claim.is_witness,
            "lacks metadata": one.claim.lacks_metadata,
            **{name: getattr(one.claim, name) is not None for name in TOLD_OR_NOT},
        }
        for id, one in told.items()
        if one.claim.problem is None
    }


TOLD_OR_NOT: Final = ("cluster_id", "epoch", "log_end", "high_watermark", "directory_id", "bootstrap", "denial")


def _sorted(names: dict[int | None, str | None], ids: Sequence[int] | None) -> list[str | None] | None:
    return None if ids is None else sorted((names[id] for id in ids), key=str)


def of_the_simulator(static: bool) -> list[Answers]:
    """In the situations of `of_kafka`."""
    found: list[Answers] = []

    async def play(cluster: Cluster) -> None:
        site = Site(cluster, Path("nowhere"))
        await site.write()
        active = site.leader
        standby = sum(KAFKAS) - active
        endpoints = {id: cluster.endpoint_of(id) for id in NODES}

        async def note() -> None:
            await trio.sleep(QUIET_S)
            found.append(await answers(site.network(), endpoints, active))

        await note()
        await site.stop(standby)
        await note()
        await site.stop(WITNESS)
        await note()
        await site.stop(active)
        await site.start(standby)
        await note()
        await site.start(WITNESS)
        await note()

    setup = Setup(**TWO_AND_A_WITNESS, kraft_version=int(not static))
    run_on_cluster(play, setup)
    return found


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_the_simulators_controllers_answer_as_kafkas_do(
    make_cluster: Callable[..., WitnessCluster], static: bool
) -> None:
    """In five situations: from all nodes running to a controller that has just started, and then leads."""
    expected = of_the_simulator(static)
    cluster = make_cluster(static=static)
    endpoints = {id: Endpoint("127.0.0.1", cluster.ports[id]) for id in NODES}

    async def until_all_answer(number: int, active: int) -> None:
        found: Answers = {}
        try:
            with trio.fail_after(JVM_SECONDS / 4):
                while found != expected[number]:
                    await trio.sleep(0.2)
                    found = await answers(TcpNetwork(), endpoints, active)
        except trio.TooSlowError:
            for controller, told in expected[number].items():
                assert found.get(controller) == told, f"situation {number}, {controller}"
            raise

    async def play() -> None:
        active = await cluster.until_all_follow()
        standby = sum(KAFKAS) - active
        for number, change in enumerate(
            (
                lambda: None,
                lambda: cluster.end(standby),
                lambda: cluster.end(WITNESS),
                lambda: (cluster.end(active), cluster.run(standby)),
                lambda: cluster.run(WITNESS),
            )
        ):
            await trio.to_thread.run_sync(change)
            await until_all_answer(number, active)

    cluster.start()
    trio.run(play)


def test_the_simulators_controllers_serve_what_kafkas_serve(make_cluster: Callable[..., WitnessCluster]) -> None:
    if kafka_version() < (4, 4):
        pytest.skip("the simulator's are those of Kafka 4.4")
    cluster = make_cluster()
    cluster.start()

    async def ask() -> None:
        active = await cluster.active("it serves")
        answer = await cluster.ask(active, API_VERSIONS, ApiVersionsRequest())
        fetched = await cluster.ask(active, FETCH, refused_fetch("of-another-cluster-000"))
        assert answer is not None
        assert fetched is not None
        assert fetched.error is ErrorCode.inconsistent_cluster_id
        assert {(one.key, one.min_version, one.max_version) for one in answer.apis} == {
            (one.key, one.min_version, one.max_version) for one in SERVED
        }

    trio.run(ask)
