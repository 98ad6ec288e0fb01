"""Running scripts: expectations that are met and that are not, violations, outputs, and the same outcome every time."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
import trio

from kraft_trio.simulation.cluster import Cluster, simulate
from kraft_trio.simulation.script.narration import Narrator
from kraft_trio.simulation.script.run import run_script
from kraft_trio.simulation.script.script import parse_script
from kraft_trio.simulation.script.step import NotAsExpected
from kraft_trio.simulation.script.steps import clock, disk, expectations

SCENARIOS = Path(__file__).parent.parent / "scenarios"
DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "reference" / "scenarios.md"

BEGUN = """\
voters 1 2 3
elect 1
append "a"
kill 3
append "b"
isolate 2 silent
append "c" via 1
"""
"""Log: 0 to 2 the leader's control records, "a" at 3 everywhere, "b" at 4 on 1 and 2, "c" at 5 on 1 alone."""

MET = [
    "expect leader 1",
    "expect leader 1 epoch 1",
    "expect no leader among 2",
    "expect epoch 1",
    "expect role Leader on 1",
    "expect role Follower on 2",
    "expect log-end 6 on 1",
    "expect log-end 5 on 2",
    "expect committed 5",
    'expect values "a" "b" on 2',
    'expect values "a" "b" "c" on 1',
    "expect alike 2",
    "expect running 2 1",
    'expect outcome "a" ok',
    'expect outcome "c" pending',
]

NOT_MET = [
    ("expect leader 2", "node 1 leads in epoch 1; expected node 2"),
    ("expect leader 1 epoch 2", "node 1 leads in epoch 1; expected node 1 in epoch 2"),
    ("expect no leader", "node 1 leads in epoch 1; expected it not to lead"),
    ("expect epoch 2 on 2", "the epoch of node 2 is 1; expected 2"),
    ("expect role Leader", "the role of node 2 is Follower; expected Leader"),
    ("expect log-end 5", "the log end of node 1 is 6; expected 5"),
    ("expect committed 6 on 1", "the high watermark of node 1 is 5; expected 6"),
    ('expect values "a" on 2', "the log of node 2 is ['a', 'b']; expected ['a']"),
    ("expect alike", "node 1 has a log to 6, synced to 6, committed to 5; expected all of it synced and committed"),
    ("expect running 1 2 3", "nodes 1, 2 run; expected 1, 2, 3"),
    ("expect committed 5 on 3", "node 3 does not run; expected it to"),
    ('expect ended 1 "x"', "node 1 runs; expected it to have ended"),
    ('expect ended 3 "x"', "node 3 has ended without an error; expected 'x'"),
    ('expect outcome "a" fail', "the append of 'a' is ok; expected fail"),
    ("expect voters 1 2", "the voter set of node 1 is (1, 2, 3); expected (1, 2)"),
    ('expect outcome "d" ok', "'d' was never appended or asked for; expected it to be ok"),
    ('append "a"', "this value was appended before; expected another"),
    ('append "d" via 3', "node 3 does not run; expected one that does"),
    ("elect 3", "expected a node that runs"),
]


def test_expectations_that_are_met() -> None:
    assert run_script(parse_script(BEGUN + "\n".join(MET))).failure is None


@pytest.mark.parametrize(("line", "message"), NOT_MET, ids=[line for line, _ in NOT_MET])
def test_an_expectation_that_is_not_met_ends_the_script_there(line: str, message: str) -> None:
    taken: list[str] = []
    script = parse_script(f"{BEGUN}{line}\nkill 1\n", "s.txt")
    outcome = run_script(script, on_step=lambda step_line: taken.append(step_line.step.text))
    assert outcome.failure is not None
    assert outcome.failure.startswith(f"s.txt, line {BEGUN.count(chr(10)) + 1}: ")
    assert message in outcome.failure
    assert outcome.failure.endswith(line)
    assert taken == [step.text for step in script.steps[:-1]]


def test_alike_compares_bytes_and_not_only_lengths() -> None:
    async def main(cluster: Cluster) -> None:
        await (await cluster.wait_for_leader()).append([b"a"])
        await cluster.wait_until_alike()
        await expectations.expect_alike().take(cluster)
        entries = cluster.machines[3].replica.entries
        entries[-1] = attrs.evolve(entries[-1], chain=b"another")
        with pytest.raises(NotAsExpected, match="nodes 1 and 3 have different logs; expected the same"):
            await expectations.expect_alike().take(cluster)
        await expectations.expect_alike((1, 2)).take(cluster)

    simulate(main)


def test_a_cluster_in_which_something_goes_on_has_not_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "SETTLED_WITHIN_S", 30.0)

    async def main(cluster: Cluster) -> None:
        leader = await cluster.wait_for_leader()

        async def append_for_ever() -> None:
            for number in itertools.count():
                await leader.append([b"%d" % number])
                await trio.sleep(5)

        cluster.nursery.start_soon(append_for_ever)
        with pytest.raises(NotAsExpected, match="settle: expected no change any more within 30 s"):
            await clock.settle().take(cluster)

    simulate(main)


def test_a_violation_is_told_with_the_step_and_the_whole_report(monkeypatch: pytest.MonkeyPatch) -> None:
    # The rule that S2 is about, broken: a vote is given for whatever disk it was asked of.
    monkeypatch.setattr("kraft_trio.actors.election.role_changes.voter_key_error", lambda *_: None)
    script = parse_script((SCENARIOS / "s02_blank_disk_votes_for_nobody.txt").read_text(), "s02.txt")
    outcome = run_script(script)
    assert outcome.failure is not None
    line = next(line for line in script.step_lines if line.step.text == "wait 20s")
    assert outcome.failure.startswith(f"s02.txt, line {line.number}: seed 0: invariant ")
    outputs = {line.step.text: line.output for line in outcome.script.step_lines}
    assert "2 votes for 3 in epoch 2" in outputs["wait 20s"]
    assert outputs["expect no leader"] == ()


@pytest.mark.nightly
def test_the_outcome_is_the_same_in_every_process() -> None:
    path = SCENARIOS / "s17_all_at_once.txt"
    program = (
        "import sys; from pathlib import Path\n"
        "from kraft_trio.simulation.script.run import run_script\n"
        "from kraft_trio.simulation.script.script import read_script\n"
        "outcome = run_script(read_script(Path(sys.argv[1])))\n"
        "print(outcome.digest, outcome.virtual_s)\n"
    )
    here = run_script(parse_script(path.read_text()))
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    there = subprocess.run(
        [sys.executable, "-c", program, str(path)], env=environment, check=True, capture_output=True, text=True
    )
    assert there.stdout.split() == [here.digest, str(here.virtual_s)]


def test_the_documents_example_gives_the_printed_result() -> None:
    example = DOCUMENT.read_text().split("```\n")[1]
    outcome = run_script(parse_script(example))
    assert outcome.failure is None, outcome.failure
    assert outcome.script.text == example


def test_a_second_disk_has_a_prime() -> None:
    async def main(cluster: Cluster) -> list[str]:
        narrator = Narrator(cluster)
        await disk.blank_disk(2).take(cluster)
        narrator.told()
        first, second = (str(replica.key) for replica in cluster.facts.replicas if replica.key.id == 2)
        reason = f"already voted for {second} in epoch 3"
        cluster.trace.record(
            "log",
            node=1,
            cause="vote requested",
            candidate=first,
            epoch=3,
            pre_vote=False,
            granted=False,
            reason=reason,
        )
        return narrator.told()

    assert simulate(main)[0] == "1 refuses 2 its vote in epoch 3: already voted for 2' in epoch 3"
