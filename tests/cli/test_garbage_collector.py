"""A server's garbage collector leaves out what lasts, but not for ever."""

from __future__ import annotations

import sys

from tests.support.programs import run

DROPPED = """
import gc, weakref
from kraft_trio.cli.serving.garbage import Freezer

class Connection:
    def __init__(self):
        self.itself = self
        self.state = [[] for _ in range(1000)]

now_s = 0.0
gc.collect()
gc.freeze()
gc.callbacks.append(Freezer(lambda: now_s, MOST_OBJECTS))
connections = [Connection() for _ in range(200)]
gc.collect()
frozen = gc.get_freeze_count()
ended = [weakref.ref(connection) for connection in connections]
connections.clear()

def left():
    gc.collect()
    gc.collect()
    return sum(ref() is not None for ref in ended)

print(left())
now_s = 3599.0
print(left())
now_s = 3600.0
print(left())
print(gc.get_freeze_count() < frozen)
now_s = 7200.0
gc.collect()
print(gc.get_freeze_count() > 0)
"""


def run_with(most_objects: int) -> list[str]:
    return run([sys.executable, "-c", f"MOST_OBJECTS = {most_objects}\n{DROPPED}"]).split()


def test_what_ended_after_a_collection_is_freed_within_the_hour() -> None:
    assert run_with(4_000_000) == ["200", "200", "0", "True", "True"]


def test_objects_are_counted_once_an_hour() -> None:
    """To count them takes as long as to traverse them."""
    counted = (
        "import gc\ncount, calls = gc.get_freeze_count, []\ngc.get_freeze_count = lambda: calls.append(0) or count()"
    )
    told = "print(len(calls))\nnow_s = 3600.0\nprint(left(), len(calls))"
    program = f"MOST_OBJECTS = 1\n{counted}\n{DROPPED.partition('print(left())')[0]}calls.clear()\nleft()\n{told}"
    assert run([sys.executable, "-c", program]).split() == ["0", "200", "1"]


def test_so_many_objects_are_never_collected_at_once() -> None:
    assert run_with(100_000)[:3] == ["200", "200", "200"]
