"""What a campaign has amounted to, as it is printed and kept: how much was run, how well it covers, what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

from kraft_trio.simulation.campaign.campaign import Summary, in_words
from kraft_trio.simulation.campaign.coverage import COVERED
from kraft_trio.simulation.campaign.outcome import Outcome


def report(summary: Summary, elapsed_s: float, replay: Callable[[int], str]) -> Iterator[str]:
    """Line by line; `replay` gives the command that runs a seed again."""
    yield summary.headline(elapsed_s)
    happened = {name: count for name, count in summary.counts.items() if name not in summary.faults}
    if happened:
        yield in_words(happened)
    if summary.faults:
        yield f"faults injected: {summary.faults.total()} ({in_words(summary.faults)})"
    yield from _transitions(summary)
    for outcome in summary.slowest_elections:
        took_s, at_s = (outcome.slowest_election_us or 0) / 1e6, (outcome.slowest_election_at_us or 0) / 1e6
        yield f"slow election: {took_s:.3f} s, at {at_s:.3f} s: {replay(outcome.seed)}"
    for _, outcomes in groupby(sorted(summary.violations, key=_rule_and_seed), key=_rule):
        yield from _violations(list(outcomes), replay)


def _transitions(summary: Summary) -> Iterator[str]:
    if summary.transitions:
        missing = [name for name in COVERED if name not in summary.transitions]
        never = f"; never: {', '.join(missing)}" if missing else ""
        yield f"role transitions: {len(COVERED) - len(missing)} of {len(COVERED)} kinds taken{never}"


def _violations(outcomes: list[Outcome], replay: Callable[[int], str]) -> Iterator[str]:
    failure = outcomes[0].failure
    assert failure is not None
    yield f"{failure.rule} ({failure.title}): {len(outcomes)} {'seed' if len(outcomes) == 1 else 'seeds'}"
    for outcome in outcomes:
        yield f"  {replay(outcome.seed)}"


def _rule(outcome: Outcome) -> tuple[str, str]:
    assert outcome.failure is not None
    return outcome.failure.rule, outcome.failure.title


def _rule_and_seed(outcome: Outcome) -> tuple[str, str, int]:
    return *_rule(outcome), outcome.seed
