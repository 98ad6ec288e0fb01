"""The program that benchmarks/run spark-stream measures: every way reads the whole log, each time anew."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.processes import tree_cpu_seconds
from benchmarks.spark_stream import PROGRAM
from tests.acceptance.conftest import MakeQuorum
from tests.spark.conftest import IN_PARTS
from tests.support.programs import run

BURNT_SECONDS = 0.3
BURN = f"import time\nwhile time.process_time() < {BURNT_SECONDS}: pass\n"
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {BURN!r}], check=True)
living = subprocess.Popen([sys.executable, "-c", {BURN + "print(flush=True); input()"!r}], stdout=subprocess.PIPE)
living.stdout.readline()
print(flush=True)
input()
"""


@IN_PARTS
@pytest.mark.parametrize("way", ["reader", "consumer"])
def test_each_round_reads_all(make_quorum: MakeQuorum, way: str) -> None:
    quorum = make_quorum(1)
    quorum.start()
    quorum.produce([f"{number}" for number in range(300)])
    pid = quorum.nodes[1].pid
    answers = run([*PROGRAM, way, quorum.bootstrap_servers, "--rounds", "2", "--node", str(pid)])
    for answer in map(json.loads, answers.splitlines()):
        assert answer["rows"] == 300
        assert answer.keys() == {"rows", "seconds", "cpu_s", "nodes_cpu_s"}
        assert answer["seconds"] > 0


def test_the_time_of_a_process_has_that_of_its_children() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        both = 2 * BURNT_SECONDS
        assert tree_cpu_seconds(process.pid) >= 0.9 * both  # The kernel counts in ticks, and may be some behind.
