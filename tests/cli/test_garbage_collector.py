"""A server's garbage collector leaves out what lasts, but not for ever."""

from __future__ import annotations

import sys

from tests.support.programs import run

DROPPED = """
import gc, weakref
from kraft_trio.cli.garbage import Freezer

class Connection:
    def __init__(self):
        self.itself = self
        self.state = [[] for _ in range(1000)]

now_s = 0.0
gc.collect()
gc.freeze()
gc.callbacks.append(Freezer(lambda: now_s))
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


def test_what_ended_after_a_collection_is_freed_within_the_hour() -> None:
    assert run([sys.executable, "-c", DROPPED]).split() == ["200", "200", "0", "True", "True"]
