"""A mailbox is served in its senders' steps while its owner waits, and by nobody but the owner otherwise."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from kraft_trio.actors.waiting.served_mailbox import SERVED_WHILE_WAITING, ServedMailbox


class Owner:
    """Has even numbers served in the senders' steps, and queues odd ones for itself."""

    def __init__(self) -> None:
        self.mailbox = ServedMailbox[int](64)
        self.served: list[str] = []
        self.scope = trio.CancelScope()
        self.before_serving: Callable[[], object] = list

    async def run(self) -> None:
        with self.scope:
            while True:
                self.served.append(f"queued {await self.mailbox.receive(self.serve)}")

    def serve(self, number: int) -> bool:
        self.before_serving()
        if number < 0:
            raise ValueError(number)
        if number % 2:
            return False
        self.served.append(f"at once {number}")
        return True


@asynccontextmanager
async def waiting_owner() -> AsyncIterator[Owner]:
    owner = Owner()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(owner.run)
        await trio.testing.wait_all_tasks_blocked()
        yield owner
        owner.scope.cancel()


async def test_a_waiting_owner_is_served_for_in_the_senders_step() -> None:
    async with waiting_owner() as owner:
        owner.mailbox.send_nowait(0)
        owner.mailbox.send_nowait(2)
        assert owner.served == ["at once 0", "at once 2"]


async def test_messages_keep_their_order_behind_a_queued_one() -> None:
    async with waiting_owner() as owner:
        for number in (0, 1, 2, 3):
            owner.mailbox.send_nowait(number)
        assert owner.served == ["at once 0"], "the owner is about to serve the rest itself"
        await trio.testing.wait_all_tasks_blocked()
        owner.mailbox.send_nowait(4)
        assert owner.served == ["at once 0", "queued 1", "queued 2", "queued 3", "at once 4"]


async def test_nothing_is_served_after_the_owner_is_cancelled() -> None:
    """Not even before the owner has run (rule R1)."""
    async with waiting_owner() as owner:
        owner.scope.cancel()
        owner.mailbox.send_nowait(2)
        assert owner.served == []
        await trio.testing.wait_all_tasks_blocked()
        assert owner.served == []
        assert owner.mailbox.close() == [2], "the owner answers it when it ends"
        with pytest.raises(trio.BrokenResourceError):
            owner.mailbox.send_nowait(4)


async def test_a_message_that_ends_the_wait_is_the_last_one_served() -> None:
    async with waiting_owner() as owner:
        owner.before_serving = owner.scope.cancel
        owner.mailbox.send_nowait(2)
        owner.mailbox.send_nowait(4)
        assert owner.served == ["at once 2"]


async def test_an_error_in_the_senders_step_is_the_owners() -> None:
    owner = Owner()
    with pytest.RaisesGroup(ValueError):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(owner.run)
            await trio.testing.wait_all_tasks_blocked()
            owner.mailbox.send_nowait(-1)
            owner.mailbox.send_nowait(2)
    assert owner.served == []
    assert owner.mailbox.close() == [2]


async def test_a_message_sent_while_one_is_served_waits_its_turn() -> None:
    async with waiting_owner() as owner:

        def send_another() -> None:
            owner.before_serving = list
            owner.mailbox.send_nowait(4)
            assert owner.served == []

        owner.before_serving = send_another
        owner.mailbox.send_nowait(2)
        await trio.testing.wait_all_tasks_blocked()
        assert owner.served == ["at once 2", "queued 4"]


async def test_senders_serve_only_so_many_before_others_run() -> None:
    async with waiting_owner() as owner:
        for _ in range(SERVED_WHILE_WAITING + 2):
            owner.mailbox.send_nowait(0)
        assert owner.served == ["at once 0"] * SERVED_WHILE_WAITING
        await trio.testing.wait_all_tasks_blocked()
        assert owner.served[SERVED_WHILE_WAITING:] == ["queued 0"] * 2


async def test_a_sender_waits_for_room() -> None:
    mailbox = ServedMailbox[int](1)
    mailbox.send_nowait(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(mailbox.send, 2)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(trio.WouldBlock):
            mailbox.send_nowait(3)
        assert [await mailbox.receive(bool), await mailbox.receive(bool)] == [1, 2]
