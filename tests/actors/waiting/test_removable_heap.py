"""The heap whose items can leave before their turn."""

from __future__ import annotations

import math
import random

from kraft_trio.actors.waiting.removable_heap import STALE_ENTRIES, RemovableHeap


def test_items_come_in_the_order_of_their_newest_keys() -> None:
    heap: RemovableHeap[str] = RemovableHeap()
    for item, key in (("a", 3), ("b", 1), ("c", 2), ("d", 2), ("b", 4)):
        heap.put(item, key)
    heap.discard("a")
    heap.discard("never there")
    assert heap.lowest_key == 2
    assert heap.pop_up_to(1) is None
    assert [heap.pop_up_to(9) for _ in range(4)] == ["c", "d", "b", None]
    assert (len(heap), heap.lowest_key) == (0, math.inf)


def test_random_use_agrees_with_a_sorted_dict() -> None:
    source = random.Random(7)
    heap: RemovableHeap[int] = RemovableHeap()
    expected: dict[int, int] = {}
    for _ in range(5000):
        item, key = source.randrange(40), source.randrange(1000)
        match source.randrange(4):
            case 0 | 1:
                heap.put(item, key)
                expected.pop(item, None)
                expected[item] = key
            case 2:
                heap.discard(item)
                expected.pop(item, None)
            case 3:
                due = [known for known in expected if expected[known] <= key]
                first = min(due, key=lambda known: expected[known], default=None)
                assert heap.pop_up_to(key) == first
                expected.pop(first, None)  # type: ignore[arg-type]
        assert len(heap) == len(expected)
        assert heap.lowest_key == min(expected.values(), default=math.inf)


def test_items_that_left_are_forgotten() -> None:
    heap: RemovableHeap[object] = RemovableHeap()
    stays = object()
    heap.put(stays, 0)
    for number in range(100_000):
        leaves = object()
        heap.put(leaves, number)
        heap.discard(leaves)
        assert heap.size <= 2 + STALE_ENTRIES
    assert heap.pop_up_to(math.inf) is stays
