"""Who waits for committed records is served in the step that commits them, unless that is too much for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from kraft_trio.storage.log.committed_news import CommittedNews


class Waiter:
    """Takes news like the driver of the state machine."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.note: Callable[[], object] = lambda: None
        self.news = CommittedNews(lambda: self.note())
        self.scope = trio.CancelScope()
        self.serve_next: Callable[[], bool] = lambda: True

    async def run(self) -> None:
        with self.scope:
            while True:
                await self.news.wait(self.serve)
                self.seen.append("woken")

    def serve(self) -> bool:
        self.seen.append("served")
        return self.serve_next()


@asynccontextmanager
async def waiter() -> AsyncIterator[Waiter]:
    one = Waiter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one.run)
        await trio.testing.wait_all_tasks_blocked()
        yield one
        one.scope.cancel()


async def test_news_are_served_in_the_step_that_tells_them() -> None:
    async with waiter() as one:
        one.news.tell()
        one.news.tell()
        assert one.seen == ["served", "served"]
        await trio.testing.wait_all_tasks_blocked()
        assert one.seen == ["served", "served"], "the task is not woken"


async def test_what_is_left_wakes_the_task() -> None:
    async with waiter() as one:
        one.serve_next = lambda: False
        one.news.tell()
        one.news.tell()
        assert one.seen == ["served"], "the task is about to look itself"
        await trio.testing.wait_all_tasks_blocked()
        assert one.seen == ["served", "woken"]


async def test_an_error_ends_the_wait_and_spares_who_tells() -> None:
    def fail() -> bool:
        raise ValueError("bad record")

    one = Waiter()
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="bad record")):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run)
            await trio.testing.wait_all_tasks_blocked()
            one.serve_next = fail
            one.news.tell()


async def test_news_are_kept_back_until_they_are_given() -> None:
    async with waiter() as one:
        with one.news.held():
            one.news.tell()
            assert one.seen == []
            one.news.give()
            assert one.seen == ["served"]
            one.news.give()
            assert one.seen == ["served"], "nothing new"
            one.news.tell()
        assert one.seen == ["served", "served"], "given at the end of the block"
        one.news.tell()
        assert one.seen == ["served", "served", "served"], "nothing is kept back any more"


async def test_nothing_is_served_after_the_task_is_cancelled() -> None:
    async with waiter() as one:
        one.scope.cancel()
        one.news.tell()
        assert one.seen == []


async def test_nothing_is_served_while_the_task_is_served() -> None:
    async with waiter() as one:

        def tell_again() -> bool:
            one.news.tell()
            return True

        one.serve_next = tell_again
        one.news.tell()
        await trio.testing.wait_all_tasks_blocked()
        assert one.seen == ["served"], "nor is it woken"


async def test_notes_are_written_now_or_before_the_news() -> None:
    async with waiter() as one:
        one.note = lambda: one.seen.append("noted")
        one.news.note()
        assert one.seen == ["noted"]
        one.seen.clear()
        with one.news.held():
            one.news.tell()
            one.news.note()
            assert not one.seen
        assert one.seen == ["noted", "served"]
