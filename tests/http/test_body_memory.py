"""Which connection ends when the bodies of all requests are too large together."""

from __future__ import annotations

import attrs

from kraft_trio.http.body_memory import BodyMemory


@attrs.define(eq=False)
class Connection:
    peer_host: str
    is_cut: bool = False

    def cut(self) -> None:
        self.is_cut = True


def test_address_with_the_most_loses_its_largest() -> None:
    memory = BodyMemory(100)
    small, large, other = Connection("a"), Connection("a"), Connection("b")
    for size in (10, 20, 30):
        memory.hold(small, size)
    memory.hold(large, 31)
    memory.hold(other, 39)
    assert not any(one.is_cut for one in (small, large, other))
    memory.hold(other, 40)
    assert (small.is_cut, large.is_cut, other.is_cut) == (False, True, False)
    assert memory.taken == 70
    memory.hold(large, 0)
    memory.hold(Connection("c"), 31)
    assert other.is_cut
    assert memory.taken == 61


def test_what_was_given_back_may_be_held_again() -> None:
    memory = BodyMemory(100)
    for _ in range(3):
        holder = Connection("a")
        memory.hold(holder, 100)
        memory.hold(holder, 0)
        assert not holder.is_cut
    assert memory.taken == 0


def test_one_that_is_too_large_by_itself_is_cut() -> None:
    memory = BodyMemory(100)
    holder = Connection("a")
    memory.hold(holder, 101)
    assert holder.is_cut
    assert memory.taken == 0
