"""`kraft_trio.testing`: a user's state machine on a whole quorum, with faults, and what is wrong with broken ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from examples.bank import SERDE, Bank, Command, Deposit, Transfer
from kraft_trio import NodeClosedError, OutcomeUnknownError
from kraft_trio.simulation.commands import agreement, checked_machine
from kraft_trio.testing import InvariantViolated, VirtualCluster, open_cluster, run
from tests.simulation import broken_banks as banks

BankCluster = VirtualCluster[Command, int]


def run_bank(
    main: Callable[[BankCluster], Awaitable[object]], make: type[Bank] = Bank, *, seed: int = 0, voters: int = 3
) -> list[object]:
    """What `main` notes, and the digest of everything that happened."""

    async def with_cluster() -> list[object]:
        async with open_cluster(make, serde=SERDE, voters=voters) as cluster:
            result = await main(cluster)
            return [result, cluster.simulation.trace.digest()]

    return run(with_cluster, seed=seed)


async def use(cluster: BankCluster) -> None:
    """Deposits, a snapshot on each node, a restart from it, and more deposits."""
    for amount in range(1, 6):
        await cluster.execute(Deposit("alice", amount), cluster.new_request_id())
    await cluster.wait_until_alike()
    for node in (1, 2, 3):
        await cluster.take_snapshot(node)
    await cluster.restart(2)
    await cluster.wait_for_leader()
    for amount in range(1, 6):
        await cluster.execute(Transfer("alice", "bob", amount), cluster.new_request_id(), on=2)
    await cluster.wait_until_alike()


class TestFaults:
    def test_a_call_on_any_node_survives_a_new_leader(self) -> None:
        async def main(cluster: BankCluster) -> int:
            leader = await cluster.wait_for_leader()
            follower = next(id for id in cluster.nodes if id != leader.config.node_id)
            assert await cluster.execute(Deposit("alice", 1), on=follower) == 1
            cluster.kill(leader)
            assert await cluster.execute(Deposit("alice", 1), on=follower) == 2
            await cluster.start(leader)
            await cluster.read_barrier(on=leader)
            return cluster.state_machine(leader).balances["alice"]

        assert run_bank(main)[0] == 2

    def test_a_call_in_a_killed_process_has_an_unknown_outcome(self) -> None:
        async def main(cluster: BankCluster) -> None:
            leader = await cluster.wait_for_leader()
            cluster.isolate(leader)
            request_id = cluster.new_request_id()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(kill_soon, cluster, leader.config.node_id)
                with pytest.raises(OutcomeUnknownError) as unknown:
                    await cluster.execute(Deposit("alice", 1), request_id, on=leader)
            assert unknown.value.request_id == request_id
            with pytest.raises(NodeClosedError):
                await cluster.execute(Deposit("alice", 1), request_id, on=leader.config.node_id)

        async def kill_soon(cluster: BankCluster, node: int) -> None:
            await trio.sleep(1)
            cluster.kill(node)

        run_bank(main)

    def test_a_call_in_a_paused_process_does_not_hang(self) -> None:
        async def main(cluster: BankCluster) -> int:
            leader = await cluster.wait_for_leader()
            cluster.pause(leader)
            with pytest.raises(trio.TooSlowError):
                await cluster.execute(Deposit("alice", 1), on=leader, within_s=5)
            cluster.resume(leader)
            return await cluster.execute(Deposit("bob", 1))

        assert run_bank(main)[0] == 1

    def test_an_isolated_node_knows_no_news_until_it_is_healed(self) -> None:
        async def main(cluster: BankCluster) -> None:
            leader = await cluster.wait_for_leader()
            other = next(id for id in cluster.nodes if id != leader.config.node_id)
            cluster.isolate(other)
            await cluster.execute(Deposit("alice", 1))
            tasks = len(cluster.simulation.nursery.child_tasks)
            with pytest.raises(trio.TooSlowError):
                await cluster.read_barrier(on=other, within_s=5)
            await trio.sleep(1)
            assert len(cluster.simulation.nursery.child_tasks) == tasks, "the call goes on after its time is over"
            assert cluster.state_machine(other).balances == {}
            cluster.heal()
            await cluster.read_barrier(on=other)
            assert cluster.state_machine(other).balances == {"alice": 1}

        run_bank(main)

    def test_power_loss_keeps_what_was_acknowledged(self) -> None:
        async def main(cluster: BankCluster) -> None:
            await cluster.execute(Deposit("alice", 1))
            for node in (1, 2, 3):
                cluster.crash(node, "all")
            for node in (1, 2, 3):
                await cluster.start(node)
            await cluster.read_barrier(on=1)
            assert cluster.state_machine(1).balances == {"alice": 1}

        run_bank(main)


def test_the_same_seed_gives_the_same_run() -> None:
    assert run_bank(use, seed=1) == run_bank(use, seed=1)
    assert run_bank(use, seed=1) != run_bank(use, seed=2)


def test_a_cluster_needs_virtual_time() -> None:
    async def main() -> None:
        async with open_cluster(Bank, serde=SERDE):
            pass

    with pytest.raises(RuntimeError, match=r"kraft_trio\.testing\.run"):
        trio.run(main)


def test_a_machine_in_place_of_its_class_gets_a_sentence() -> None:
    with pytest.raises(TypeError, match="make: one Bank for all nodes, expected its class or another factory"):
        open_cluster(Bank(), serde=SERDE)  # type: ignore[arg-type]


def test_errors_of_the_test_come_out_as_they_are() -> None:
    async def main(cluster: BankCluster) -> None:
        assert await cluster.execute(Deposit("alice", 1)) == 2

    with pytest.raises(AssertionError, match="assert 1 == 2"):
        run_bank(main)


class TestBrokenMachines:
    @pytest.mark.parametrize(
        ("bank", "title", "words"),
        [
            (banks.RandomBank, checked_machine.NO_CLOCK, "calls random.randrange at broken_banks.py:"),
            (banks.HastyBank, checked_machine.NO_CLOCK, "calls time.monotonic at broken_banks.py:"),
            (banks.DoubleBank, agreement.AS_THE_MODEL, "the model gives 1"),
            (banks.SharedBank, agreement.SAME_RESULTS, "another instance gives"),
            (banks.PersonalBank, agreement.SAME_RESULTS, "another instance gives"),
            (banks.HidingBank, agreement.SAME_STATES, "after offset"),
            (banks.AddingBank, checked_machine.LOADED_AS_SAVED, "it then saves"),
        ],
        ids=lambda value: value.__name__ if isinstance(value, type) else "-",
    )
    def test_it_is_found(self, bank: type[Bank], title: str, words: str) -> None:
        with pytest.raises(InvariantViolated) as violated:
            run_bank(use, bank)
        assert violated.value.violation.title == title
        assert words in violated.value.violation.facts[1]

    def test_one_voter_is_enough(self) -> None:
        async def main(cluster: BankCluster) -> None:
            await cluster.execute(Deposit("alice", 1))

        with pytest.raises(InvariantViolated, match="another instance gives"):
            run_bank(main, banks.PersonalBank, voters=1)

    def test_states_are_compared_at_the_end(self) -> None:
        async def main(cluster: BankCluster) -> None:
            for _ in range(2):
                await cluster.execute(Deposit("alice", 1))

        with pytest.raises(InvariantViolated) as violated:
            run_bank(main, banks.LateHidingBank)
        assert violated.value.violation.title == agreement.SAME_STATES

    def test_a_snapshot_that_changes_while_it_is_written_is_found(self) -> None:
        async def main(cluster: BankCluster) -> None:
            leader = await cluster.wait_for_leader()
            await cluster.execute(Deposit("alice", 1))
            records = iter(cluster.simulation.checked_machines[leader.config.node_id].save())
            await cluster.execute(Deposit("alice", 1), on=leader)
            list(records)
            await trio.sleep(1)

        with pytest.raises(InvariantViolated) as violated:
            run_bank(main, banks.LateBank)
        assert violated.value.violation.title == checked_machine.SAVED_AT_ONCE

    def test_the_bank_itself_is_not_broken(self) -> None:
        for seed in range(3):
            run_bank(use, seed=seed)
