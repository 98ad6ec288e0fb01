"""Clients in a whole cluster: what they note is true, under faults too, and the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest
import trio

from kraft_trio.application.serde import MsgpackSerde
from kraft_trio.simulation.clients.log_access import EmbeddedAccess, NetworkAccess, Values
from kraft_trio.simulation.clients.operations import OPERATIONS, OperationKind, register
from kraft_trio.simulation.clients.workload import Workload
from kraft_trio.simulation.cluster import Cluster, simulate
from kraft_trio.simulation.facts.committed import CommittedRecords
from kraft_trio.simulation.facts.history import BARRIER_READ, History, Operation, Outcome
from kraft_trio.simulation.invariants.linearizability import contradictions
from kraft_trio.simulation.violation import InvariantViolated

pytestmark = pytest.mark.rotating(2)


def committed_of(cluster: Cluster) -> CommittedRecords:
    committed = CommittedRecords()
    for replica in cluster.facts.replicas:
        committed.follow(replica.entries_from(committed.end), replica.high_watermark or 0, replica.device.content.peek)
    return committed


async def ran_for(cluster: Cluster, seconds: float, **options: object) -> History:
    workload = Workload(cluster, **options)  # type: ignore[arg-type]
    workload.start()
    await trio.sleep(seconds)
    await workload.stop()
    return cluster.history


def outcomes(history: History) -> set[Outcome]:
    return {operation.outcome for operation in history.operations}


def test_without_failures_every_operation_of_every_kind_succeeds() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        history = await ran_for(cluster, 30.0, clients=4, embedded=2, operations_per_s=1.0)
        assert {operation.kind for operation in history.operations} == set(OPERATIONS)
        assert {operation.via for operation in history.operations} == {None, 1, 2, 3, 4}
        slow = [operation for operation in history.operations if operation.outcome is not Outcome.OK]
        assert slow == []
        assert 75 < len(history.operations) < 165
        committed = committed_of(cluster)
        assert len(committed.between(0, committed.end)) == sum(
            len(operation.values) for operation in history.operations if operation.kind == "append"
        )
        assert list(contradictions(history.operations, committed)) == []

    simulate(main, seed=1, observers=1)


async def fail_over_and_over(cluster: Cluster) -> None:
    """Two leaders crash, the third is cut off; each comes back."""
    for _ in range(2):
        leader = (await cluster.wait_for_leader()).config.node_id
        await trio.sleep(2.0)
        cluster.machines[leader].crash("all")
        await trio.sleep(3.0)
        await cluster.machines[leader].start()
    leader = (await cluster.wait_for_leader()).config.node_id
    cluster.partition([leader], [id for id in cluster.machines if id != leader])
    await trio.sleep(5.0)
    cluster.heal()


@pytest.mark.rotating(3)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_noted_under_faults_is_linearizable(seed: int) -> None:
    async def main(cluster: Cluster) -> None:
        workload = Workload(cluster, clients=5, embedded=2, operations_per_s=4.0)
        workload.start()
        await fail_over_and_over(cluster)
        await workload.stop()
        await workload.demand_progress()
        await cluster.wait_until_alike()
        cluster.checker.finished()
        operations = cluster.history.operations
        committed = committed_of(cluster)
        assert {Outcome.OK, Outcome.UNKNOWN} <= outcomes(cluster.history) <= {*Outcome} - {Outcome.PENDING}
        assert list(contradictions(operations, committed)) == []
        acknowledged = [operation for operation in operations if operation.outcome is Outcome.OK]
        assert len(acknowledged) > 100

    simulate(main, seed=seed)


@pytest.mark.rotating(2)
def test_a_seed_gives_one_history_and_another_a_different_one() -> None:
    async def main(cluster: Cluster) -> list[str]:
        workload = Workload(cluster, clients=4, embedded=2, operations_per_s=4.0)
        workload.start()
        await fail_over_and_over(cluster)
        await workload.stop()
        return [str(operation) for operation in cluster.history.operations]

    first, second, other = simulate(main, seed=5), simulate(main, seed=5), simulate(main, seed=6)
    assert first == second
    assert first != other


def test_operations_in_flight_may_end_before_a_workload_stops() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        workload = Workload(cluster, clients=3, embedded=0, operations_per_s=100.0)
        workload.start()
        await trio.sleep(0.3)
        while not any(operation.is_pending for operation in cluster.history.operations):  # noqa: ASYNC110
            await trio.sleep(0.0001)
        await workload.stop()
        count = len(cluster.history.operations)
        assert outcomes(cluster.history) == {Outcome.OK}
        await trio.sleep(1.0)
        assert len(cluster.history.operations) == count

    simulate(main)


def test_operations_that_do_not_end_are_abandoned_as_pending() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        for node_id in (1, 2, 3):
            cluster.machines[node_id].pause()
        workload = Workload(cluster, clients=8, embedded=4, operations_per_s=100.0)
        workload.start()
        await trio.sleep(5.0)
        began_at_s = cluster.now_s
        await workload.stop(within_s=3.0)
        assert cluster.now_s - began_at_s == pytest.approx(3.0)
        assert Outcome.PENDING in outcomes(cluster.history)
        assert Outcome.OK not in {operation.outcome for operation in cluster.history.operations if operation.values}

    simulate(main)


def test_a_workload_that_never_began_stops_at_once() -> None:
    async def main(cluster: Cluster) -> None:
        await Workload(cluster).stop()
        assert cluster.history.operations == []

    simulate(main)


def test_embedded_clients_wait_for_a_node_to_run() -> None:
    async def main(cluster: Cluster) -> None:
        for node_id in (1, 2, 3):
            cluster.machines[node_id].kill()
        workload = Workload(cluster, clients=2, embedded=2, operations_per_s=10.0)
        workload.start()
        await trio.sleep(3.0)
        assert cluster.history.operations == []
        for node_id in (1, 2, 3):
            await cluster.machines[node_id].start()
        await cluster.wait_until(lambda: cluster.history.count("append", Outcome.OK) > 3)
        await workload.stop()

    simulate(main)


def test_progress_is_demanded_of_every_node_and_of_a_client() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        await Workload(cluster).demand_progress()
        done = [(operation.kind, operation.via) for operation in cluster.history.operations]
        assert sorted(done, key=str) == sorted(
            [
                *((kind, via) for kind in ("append", "read") for via in (None, 1, 2, 3, 4)),
                *(("barrier-read", via) for via in (1, 2, 3, 4)),
            ],
            key=str,
        )
        assert outcomes(cluster.history) == {Outcome.OK}

    simulate(main, observers=1)


def test_a_node_without_progress_is_a_violation() -> None:
    async def main(cluster: Cluster) -> None:
        leader = (await cluster.wait_for_leader()).config.node_id
        cut_off = 1 if leader != 1 else 2
        cluster.partition([cut_off], [id for id in cluster.machines if id != cut_off])
        await Workload(cluster).demand_progress()

    with pytest.raises(InvariantViolated) as caught:
        simulate(main)
    violation = caught.value.violation
    assert violation.title == "clients make progress once the faults are over"
    assert violation.nodes in {(1,), (2,)}
    assert "no answer within 30 s" in violation.facts[0]


@pytest.mark.usefixtures("registry")
def test_an_error_no_client_should_meet_is_a_violation() -> None:
    @register
    class Broken(OperationKind):
        name: ClassVar[str] = "broken"

        def invoke(self) -> Operation:
            return self.request.history.invoke(self.name, client=self.request.client)

        async def attempt(self, operation: Operation) -> None:
            raise LookupError("nothing that a client knows")

    async def main(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        await ran_for(cluster, 60.0, clients=1)

    with pytest.raises(InvariantViolated, match="broken of network-0 met LookupError, which no client should"):
        simulate(main)


def test_a_read_that_gives_no_values_tells_where_they_end() -> None:
    """Seed 3075: the log was trimmed, and the next read asked for less than a client knew to be committed."""

    async def main(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()
        (offset,) = await leader.append([b"a"])
        read = cluster.history.invoke(
            BARRIER_READ, client="c", via=leader.key.id, from_offset=offset + 1, is_linearizable=True
        )
        cluster.history.succeed(read, end_offset=await leader.read_barrier())
        assert cluster.history.known_end == offset + 1

    simulate(main)


def test_weights_say_what_is_drawn() -> None:
    async def main(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        history = await ran_for(cluster, 20.0, weights={"read": 1.0, "append": 0.0})
        assert {operation.kind for operation in history.operations} == {"read"}

    simulate(main)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 2, "embedded": 3}, "embedded: 3 of 2 clients, expected 0 to all of them"),
        ({"embedded": -1}, "embedded: -1 of 3 clients, expected 0 to all of them"),
        ({"operations_per_s": 0.0}, "operations_per_s: 0.0, expected more than 0"),
        ({"weights": {"reed": 1.0}}, "weights: no operation 'reed', expected some of append, barrier-read, read"),
        ({"weights": {"read": -1.0}}, "weights: 'read' weighs -1.0, expected 0 or more"),
        ({"weights": {"read": 0.0}}, "weights: .*, expected one above 0"),
        ({"weights": {}}, "weights: {}, expected one above 0"),
    ],
)
def test_what_a_workload_cannot_be_is_named(options: dict[str, object], message: str) -> None:
    async def main(cluster: Cluster) -> None:
        with pytest.raises(ValueError, match=message):
            Workload(cluster, **options)  # type: ignore[arg-type]

    simulate(main)


def test_embedded_clients_are_for_nodes_without_a_serde() -> None:
    async def main(cluster: Cluster) -> None:
        with pytest.raises(ValueError, match="embedded: the nodes have a serde of their own, expected none"):
            Workload(cluster, clients=3)
        Workload(cluster, clients=3, embedded=0)

    simulate(main, serde=MsgpackSerde())


# Clients and nodes that are wrong on purpose: the history shows it.

Breaking = Callable[[pytest.MonkeyPatch], None]


def append_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a producer that sends a batch again under another identity."""
    real = NetworkAccess.append

    async def append(self: NetworkAccess, values: Sequence[bytes], within_s: float) -> Sequence[int]:
        await real(self, values, within_s)
        return await real(self, values, within_s)

    monkeypatch.setattr(NetworkAccess, "append", append)


def acknowledge_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    async def append(self: EmbeddedAccess, values: Sequence[bytes], within_s: float) -> Sequence[int]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._node.append, values)
            end = self._node.log.end_offset
            await trio.sleep(0.0)
            nursery.cancel_scope.cancel()
        return range(end, end + len(values))

    monkeypatch.setattr(EmbeddedAccess, "append", append)


def forget_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a reader that takes a follower's old end for the newest."""
    real = EmbeddedAccess.read

    async def read(self: EmbeddedAccess, from_offset: int, until: int, within_s: float) -> Values:
        return await real(self, from_offset, max(from_offset, until - 1), within_s)

    monkeypatch.setattr(EmbeddedAccess, "read", read)


def skip_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    real = NetworkAccess.read_committed

    async def read(self: NetworkAccess, from_offset: int, within_s: float) -> Values:
        got = await real(self, from_offset, within_s)
        return Values(got.offsets[1:], got.values[1:], got.end_offset)

    monkeypatch.setattr(NetworkAccess, "read_committed", read)


@pytest.mark.parametrize("broken", [append_twice, acknowledge_before_the_commit, forget_the_newest, skip_a_value])
def test_a_wrong_client_is_found_out(broken: Breaking, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)

    async def main(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        await ran_for(cluster, 60.0, clients=4, embedded=2)
        await cluster.wait_until_alike()
        cluster.checker.finished()
        await trio.lowlevel.checkpoint()

    with pytest.raises(InvariantViolated) as caught:
        simulate(main)
    assert caught.value.violation.invariant == 21
