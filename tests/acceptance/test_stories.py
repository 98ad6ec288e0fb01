"""The user stories of KIP-853, as `scripts/story` tells them; what they leave behind is looked at from outside."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.quorum import TOPIC
from harness.raw_connection import RawConnection
from harness.waiting import WAIT_SECONDS, wait_until
from kraft_trio.storage.batches.batch import Record
from kraft_trio.storage.snapshots.checkpoint import read_checkpoint
from kraft_trio.wire.api import DESCRIBE_QUORUM
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.error_codes import ErrorCode
from scripts.stories import ALL_STORIES, STORIES
from scripts.stories.node import Node
from scripts.stories.service import Append, Service, service_during, table
from scripts.stories.story import Story
from tests.acceptance.readers import read_with_confluent
from tests.support import sizes

REPOSITORY = Path(__file__).parent.parent.parent

VOTERS_IN_THE_END = {
    "one-voter": [1],
    "three-voters": [1, 2, 3],
    "add": [1, 2, 3],
    "auto-join": [1, 3],
    "disk-failure": [1, 2, 3],
    "node-failure": [1, 2, 4],
    "reassign": [4, 5, 6],
    "listener-upgrade": [1, 2, 3],
    "moved-quorum": [1, 2, 3],
    "version-upgrade": [1, 2, 3, 4],
    "restore": [4, 5, 6],
}
"""Who is left of `remove` depends on who led."""


def described_by_leader(story: Story) -> DescribeQuorumResponse:
    def ask() -> DescribeQuorumResponse | None:
        for node in story.nodes.values():
            if node.running:
                try:
                    with RawConnection(node.endpoint, seconds=5) as connection:
                        answer = connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest(TOPIC))
                except OSError:
                    continue
                if answer.partition_error is ErrorCode.none and answer.high_watermark >= 0:
                    return answer
        return None

    return wait_until("a leader", ask)


def log_bytes(node: Node) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((node.directory / TOPIC_DIRECTORY).glob("*.log")))


def values_before_the_log(node: Node) -> list[str]:
    partition = node.directory / TOPIC_DIRECTORY
    start = min(path.stem for path in partition.glob("*.log"))
    if int(start) == 0:
        return []
    [snapshot] = partition.glob(f"{start}-*.checkpoint")
    return [(r.value or b"").decode() for r in read_checkpoint(snapshot.read_bytes()) if isinstance(r, Record)]


TOPIC_DIRECTORY = f"{TOPIC}-0"


@pytest.mark.parametrize("name", sizes.part(STORIES, 6))
def test_the_story_comes_true(name: str, story: Story) -> None:
    importlib.import_module(f"scripts.stories.{name.replace('-', '_')}").tell(story)

    answer = described_by_leader(story)
    voters = sorted(voter.key.id for voter in answer.voters)
    assert voters == VOTERS_IN_THE_END.get(name, voters)
    assert {voter.key for voter in answer.voters} == {story.nodes[voter].key for voter in voters}
    # Observers that fetch are named, too.
    endpoints = {node.id: dict(node.endpoints).popitem()[1] for node in answer.nodes}
    assert set(voters) <= set(endpoints)
    assert endpoints == {node: story.nodes[node].endpoint for node in endpoints}

    # An ordinary Kafka consumer finds what the application was told is there: once, in its order, and nothing else.
    # Where the log does not begin at offset 0, the snapshot up to there holds what came before.
    assert story.written
    consumed = read_with_confluent(",".join(str(story.nodes[voter].endpoint) for voter in voters))
    assert [*values_before_the_log(story.nodes[voters[0]]), *(value for _, value in consumed)] == story.written

    running = [node for node in story.nodes.values() if node.running]
    assert {node.id for node in running} >= set(voters)
    wait_until("the logs are equal", lambda: len({log_bytes(node) for node in running}) == 1)
    assert log_bytes(running[0])


def test_a_gap_that_reaches_into_a_part_counts_for_it() -> None:
    appends = [Append(sent, sent + 0.5) for sent in (0, 1, 4, 5, 9)]
    assert service_during(appends, 2, 6) == Service((0.5, 0.5), longest_gap_s=4, duration_s=4)
    assert service_during(appends, 1.2, 1.4) == Service((0.5,), longest_gap_s=1, duration_s=1.4 - 1.2)


def test_services_are_shown_side_by_side() -> None:
    short, long = Service((0.001, 0.003), 0.25, 2), Service(tuple(number / 1000 for number in range(1, 1001)), 1.5, 60)
    assert table({"one command": short, "by hand": long}).splitlines() == [
        "             appends  median    99 %  slowest  longest gap  in all",
        "one command        2    1 ms    3 ms     3 ms       250 ms   2.0 s",
        "by hand         1000  500 ms  990 ms  1000 ms      1500 ms  60.0 s",
    ]


def test_every_story_is_listed_with_its_first_line() -> None:
    listing = subprocess.run(
        [sys.executable, "-m", "scripts.stories", "--help"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    modules = sorted(path.stem for path in (REPOSITORY / "scripts" / "stories").glob("*.py"))
    tellers = [name for name in modules if hasattr(importlib.import_module(f"scripts.stories.{name}"), "tell")]
    assert sorted(name.replace("-", "_") for name in ALL_STORIES) == tellers
    for name in ALL_STORIES:
        module = importlib.import_module(f"scripts.stories.{name.replace('-', '_')}")
        [line] = [line for line in listing.stdout.splitlines() if line.split()[:1] == [name]]
        assert line.split(None, 1)[1] in (module.__doc__ or "")


@pytest.mark.rotating(5)
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("by_exec")
def test_a_story_that_is_interrupted_leaves_nothing_behind(tmp_path: Path, signal_number: signal.Signals) -> None:
    command = [sys.executable, "-m", "scripts.stories", "three-voters"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started: list[int] = []
        for line in iter(process.stdout.readline, ""):
            if line.startswith("  process "):
                started.append(int(line.split()[1].rstrip(",")))
            if len(started) == 3:
                break
        assert list(tmp_path.iterdir())
        process.send_signal(signal_number)
        process.stdout.read()
        assert process.wait(WAIT_SECONDS) == 130
    assert len(started) == 3
    for pid in started:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert not list(tmp_path.iterdir())
