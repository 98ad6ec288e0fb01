"""What is concluded from the claims of a quorum's nodes: one situation a row."""

from __future__ import annotations

import attrs
import pytest

from kraft_trio.diagnosis.finding import Severity
from kraft_trio.diagnosis.findings.table import RULES
from kraft_trio.diagnosis.quorum_findings import contradictions, findings
from kraft_trio.diagnosis.quorum_situation import Situation, survivals
from tests.diagnosis import controllers_situations, leaderless_situations, led_situations, lost_controllers_situations
from tests.diagnosis.situations import (
    ALL,
    NEW,
    OFFLINE,
    OLD,
    UP,
    kafka,
    led,
    says,
    silent,
)

SITUATIONS = {
    **led_situations.SITUATIONS,
    **leaderless_situations.SITUATIONS,
    **controllers_situations.SITUATIONS,
    **lost_controllers_situations.SITUATIONS,
}


@pytest.mark.parametrize(("situation", "expected"), SITUATIONS.values(), ids=SITUATIONS)
def test_what_is_concluded(situation: Situation, expected: list[tuple[str, str, str]]) -> None:
    found = findings(situation)
    assert [(finding.severity.value, finding.code) for finding in found] == [row[:2] for row in expected]
    for finding, (_, _, text) in zip(found, expected, strict=True):
        assert text in finding.text


def test_every_rule_is_staged_and_says_what_its_row_says() -> None:
    """Findings have the code and a severity of their row, and each severity is staged."""
    said = set()
    for situation, _ in SITUATIONS.values():
        for rule in RULES:
            found = list(rule.find(situation)) if rule.when.holds(situation) else []
            assert all(one.code == rule.code and one.severity in rule.severities for one in found)
            said |= {(rule.code, one.severity) for one in found}
    assert said == {(rule.code, severity) for rule in RULES for severity in rule.severities}


def test_nothing_is_called_ok_beside_what_is_critical() -> None:
    for situation, _ in SITUATIONS.values():
        severities = {finding.severity for finding in findings(situation)}
        assert not {Severity.CRITICAL, Severity.OK} <= severities


def test_contradictions_are_marked() -> None:
    stale = says(3, epoch=4, leader=2, voter_ids=(1, 2))
    situation = Situation((says(1), says(2), stale, silent(4)), led(UP, UP, OFFLINE))
    assert contradictions(situation, stale) == {"epoch", "leader", "voters"}
    assert contradictions(situation, kafka(2, 3)) == {"leader"}
    assert not contradictions(Situation((silent(1), kafka(2, 1))), kafka(2, 1))
    assert contradictions(situation, says(2)) == contradictions(situation, silent(4)) == frozenset()


def test_a_silent_node_never_hides_a_finding() -> None:
    for situation, _ in SITUATIONS.values():
        more = attrs.evolve(situation, claims=(*situation.claims, silent(77)))
        severe = [finding.code for finding in findings(situation) if finding.severity is Severity.CRITICAL]
        if severe in (["login"], ["tls"]) and not situation.answers:
            severe.append("no-answer")  # of the silent node
        assert [finding.code for finding in findings(more) if finding.severity is Severity.CRITICAL] == severe


def test_the_command_replaces_the_voter_with_the_blank_disk() -> None:
    found = findings(Situation((says(1), says(2, directory_id=NEW)), led(UP, UP, UP, directory_id=OLD)))
    [command] = [finding.command for finding in found if finding.code == "other-directory"]
    assert command == "kraft metadata-quorum --bootstrap-controller host1:9093,host2:9093 replace -i 2"


def test_what_each_set_survives_while_a_change_is_not_committed() -> None:
    pending = led(UP, UP, UP, OFFLINE, committed_voter_ids=(1, 2, 3))
    assert [(one.voter_ids, one.spare) for one in survivals(Situation(ALL, pending))] == [
        ((1, 2, 3, 4), 0),
        ((1, 2, 3), 1),
    ]


def test_without_a_leader_whoever_answers_is_up() -> None:
    [survival] = survivals(Situation((says(1, leader=None), says(9, leader=None), silent(2), silent(3))))
    assert (survival.voter_ids, survival.up_ids, survival.spare) == ((1, 2, 3), (1,), -1)
    assert survivals(Situation((silent(1),))) == ()
