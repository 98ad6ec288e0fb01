"""What requests and answers in flight hold is bounded, and a part of it is kept for the quorum's own."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from kraft_trio.actors.waiting.memory_budget import MIN_ANSWER_BYTES, MemoryBudget

TOTAL = 64 * 1024 * 1024
FOR_CLIENTS = TOTAL * 3 // 4
LARGE = 3 * 1024 * 1024


async def test_clients_never_take_what_is_kept_for_replicas() -> None:
    budget = MemoryBudget(TOTAL)
    assert budget.take_now(FOR_CLIENTS, for_replica=False)
    assert not budget.take_now(1, for_replica=False)
    assert budget.answer_room(for_replica=False) == 0
    assert budget.answer_room(for_replica=True) > 0
    assert budget.take_now(TOTAL - FOR_CLIENTS, for_replica=True)
    assert not budget.take_now(1, for_replica=True)


def test_an_answer_is_no_larger_than_what_a_connection_may_hold() -> None:
    budget = MemoryBudget(TOTAL, per_connection=2 * 1024**2)
    assert [budget.answer_room(for_replica=is_replica) for is_replica in (False, True)] == [2 * 1024**2] * 2


async def test_room_comes_first_come_first_served() -> None:
    budget = MemoryBudget(TOTAL)
    budget.take_now(FOR_CLIENTS, for_replica=False)
    order: list[int] = []

    async def take(size: int) -> None:
        await budget.take(size, for_replica=False)
        order.append(size)

    async with trio.open_nursery() as nursery:
        for size in (1000, 1, 2):
            nursery.start_soon(take, size)
            await trio.testing.wait_all_tasks_blocked()
        budget.give_back(999)
        await trio.testing.wait_all_tasks_blocked()
        assert order == []
        assert not budget.take_now(1, for_replica=False)
        budget.give_back(4)
        await trio.testing.wait_all_tasks_blocked()
        assert set(order) == {1000, 1, 2}
    assert budget.taken == FOR_CLIENTS


@pytest.mark.parametrize("is_arrival", [False, True])
async def test_room_goes_from_one_address_to_the_next(is_arrival: bool) -> None:
    """One address may hold all that clients may have, and have hundreds of requests waiting for more."""
    budget = MemoryBudget(TOTAL)
    budget.take_now(FOR_CLIENTS, for_replica=False)
    order: list[str] = []

    async def take(address: str) -> None:
        if is_arrival:
            await budget.take_for_arrival(LARGE, address)
        else:
            await budget.take(LARGE, for_replica=False, address=address)
        order.append(address)

    async with trio.open_nursery() as nursery:
        for address in "aaaabc":
            nursery.start_soon(take, address)
            await trio.testing.wait_all_tasks_blocked()
        for _ in range(6):
            budget.give_back(LARGE)
            await trio.testing.wait_all_tasks_blocked()
    assert order == list("abcaaa")


@pytest.mark.parametrize("is_arrival", [False, True])
async def test_cancelled_wait_takes_nothing_and_blocks_nobody(is_arrival: bool) -> None:
    budget = MemoryBudget(TOTAL)
    budget.take_now(FOR_CLIENTS - 10, for_replica=False)
    async with trio.open_nursery() as nursery:
        impatient = trio.CancelScope()

        async def wait_in_vain() -> None:
            with impatient:
                await (budget.take_for_arrival(LARGE) if is_arrival else budget.take(LARGE, for_replica=False))

        nursery.start_soon(wait_in_vain)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(lambda: budget.take(10, for_replica=False))
        await trio.testing.wait_all_tasks_blocked()
        impatient.cancel()
    assert budget.taken == FOR_CLIENTS


async def test_requests_that_arrive_leave_room_for_others() -> None:
    """Half of what clients may have, until one of them is here or never will be.  Those that had to wait count, too."""
    budget = MemoryBudget(TOTAL)
    size = budget.per_connection
    await budget.take_for_arrival(size)
    for _ in range(3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(budget.take_for_arrival, size)
            await trio.testing.wait_all_tasks_blocked()
            assert budget.taken == size
            assert budget.take_now(size, for_replica=False)
            budget.give_back(size)
            budget.arrived(size)
        assert budget.taken == 2 * size
        budget.give_back(size)


@pytest.mark.parametrize("is_arrival", [False, True])
async def test_a_request_that_arrives_overtakes_nobody(is_arrival: bool) -> None:
    budget = MemoryBudget(TOTAL)
    budget.take_now(FOR_CLIENTS - LARGE, for_replica=False)
    order: list[str] = []

    async def take_first() -> None:
        await (budget.take_for_arrival(LARGE + 1) if is_arrival else budget.take(LARGE + 1, for_replica=False))
        order.append("first")

    async def arrive() -> None:
        await budget.take_for_arrival(LARGE)
        order.append("second")

    async with trio.open_nursery() as nursery:
        for one in (take_first, arrive):
            nursery.start_soon(one)
            await trio.testing.wait_all_tasks_blocked()
        assert order == []
        budget.give_back(1)
        await trio.testing.wait_all_tasks_blocked()
        assert order == ["first"]
        budget.give_back(LARGE)
    assert order == ["first", "second"]


async def test_a_request_that_could_arrive_gets_the_next_room() -> None:
    """Or small ones could keep it waiting for ever."""
    budget = MemoryBudget(TOTAL)
    budget.take_now(FOR_CLIENTS, for_replica=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.take_for_arrival, LARGE)
        await trio.testing.wait_all_tasks_blocked()
        budget.give_back(LARGE - 1)
        assert not budget.take_now(1, for_replica=False)
        assert budget.take_now(1, for_replica=True)
        nursery.start_soon(lambda: budget.take(1, for_replica=False))
        await trio.testing.wait_all_tasks_blocked()
        assert budget.taken == FOR_CLIENTS - LARGE + 2
        budget.give_back(2)
        await trio.testing.wait_all_tasks_blocked()
        assert budget.taken == FOR_CLIENTS
        budget.give_back(1)


@pytest.mark.parametrize("size", [1, 1000])
async def test_large_requests_without_end_let_others_take_their_turn(size: int) -> None:
    """Producers with more large requests than the memory holds, answered one by one: another always waits to arrive."""
    budget = MemoryBudget(TOTAL)
    large, turns, work = budget.per_connection // 2, 0, trio.Lock()

    async def produce() -> None:
        nonlocal turns
        while True:
            await budget.take_for_arrival(large)
            budget.arrived(large)
            async with work:
                await trio.lowlevel.checkpoint()
            budget.give_back(large)
            turns += 1

    async with trio.open_nursery() as nursery:
        for _ in range(2 * FOR_CLIENTS // large):
            nursery.start_soon(produce)
        while not turns:
            await trio.lowlevel.checkpoint()
        before, others = turns, trio.Event()

        async def ask() -> None:
            await budget.take(size, for_replica=False)
            others.set()

        nursery.start_soon(ask)
        while not others.is_set() and turns < before + 1000:
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert others.is_set()
    assert turns - before < 100


async def test_usual_requests_need_no_part_in_what_very_large_ones_may_take() -> None:
    budget = MemoryBudget(TOTAL)
    assert await budget.take_for_arrival(budget.per_connection) == budget.per_connection
    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.take_for_arrival, budget.per_connection)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(budget.take_for_arrival, 1024 * 1024)
        await trio.testing.wait_all_tasks_blocked()
        assert budget.taken == budget.per_connection + 1024 * 1024
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("for_replica", [False, True])
async def test_unread_answers_leave_room_for_others(for_replica: bool) -> None:
    """Thirty that are never read, each as large as it may be."""
    budget = MemoryBudget(TOTAL)
    for _ in range(30):
        budget.take_beyond(budget.answer_room(for_replica=for_replica))
    assert budget.answer_room(for_replica=for_replica) >= MIN_ANSWER_BYTES
    assert budget.taken <= TOTAL
