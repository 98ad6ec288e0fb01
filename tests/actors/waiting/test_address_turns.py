"""A lock that goes from address to address."""

from __future__ import annotations

import trio
import trio.testing

from kraft_trio.actors.waiting.address_turns import AddressTurns


async def test_flood_of_one_address_keeps_others_waiting_for_one() -> None:
    turns = AddressTurns()
    served: list[str] = []

    async def want(address: str) -> None:
        async with turns.held(address):
            await trio.lowlevel.checkpoint()
            served.append(address)

    async with trio.open_nursery() as nursery, turns.held("a"):
        for address in "aaaabbc":
            nursery.start_soon(want, address)
            await trio.testing.wait_all_tasks_blocked()
        assert not served
    assert served == list("abcabaa")


async def test_one_holds_it_at_a_time() -> None:
    turns = AddressTurns()
    holders = most = 0

    async def want(address: str) -> None:
        nonlocal holders, most
        for _ in range(10):
            async with turns.held(address):
                holders += 1
                most = max(most, holders)
                await trio.lowlevel.checkpoint()
                holders -= 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        for address in "aabc":
            nursery.start_soon(want, address)
    assert most == 1


async def test_who_gives_up_neither_gets_it_nor_keeps_it() -> None:
    """While it waits, and in the step in which it would get it."""
    turns = AddressTurns()

    async def want(address: str, scope: trio.CancelScope) -> None:
        with scope:
            async with turns.held(address):
                await trio.lowlevel.checkpoint()
                raise AssertionError("it was cancelled")

    async with trio.open_nursery() as nursery:
        scopes = [trio.CancelScope() for _ in range(3)]
        async with turns.held("a"):
            for address, scope in zip("aab", scopes, strict=True):
                nursery.start_soon(want, address, scope)
            await trio.testing.wait_all_tasks_blocked()
            scopes[0].cancel()
            await trio.testing.wait_all_tasks_blocked()
        for scope in scopes[1:]:
            scope.cancel()
    with trio.fail_after(5):
        async with turns.held("c"):
            pass
