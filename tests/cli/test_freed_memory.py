"""A server keeps the memory of a freed frame for the next one."""

from __future__ import annotations

import platform
import sys

import pytest

from tests.support.programs import run

PAGE_FAULTS = """
import resource
from kraft_trio.system.freed_memory import keep_freed_memory
keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytes(2**20 + 1).upper()
before = faults()
for _ in range(100):
    bytes(2**20 + 1).upper()
print(faults() - before)
"""
PAGES_OF_A_FRAME = 256


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library manages its memory differently")
def test_a_freed_frame_is_not_given_back_to_the_system() -> None:
    faults = int(run([sys.executable, "-c", PAGE_FAULTS]))
    assert faults < PAGES_OF_A_FRAME
