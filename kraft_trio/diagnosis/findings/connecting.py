"""Who cannot be asked, and why: no answer, no login, no secure connection, no right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft_trio.diagnosis.finding import (
    Finding,
    Severity,
    capitalized,
    ids_text,
    joined,
    number_word,
    recover_text,
    start_command,
)
from kraft_trio.diagnosis.findings.bootstrap import KEY, leads_nowhere
from kraft_trio.diagnosis.quorum_situation import Claim, Situation, runs_nevertheless
from kraft_trio.diagnosis.tls_problems import tls_problem
from kraft_trio.protocol.voter_set import majority_of

CLOSED: Final = ("closed the connection", "Connection reset", "frame length")
"""Said of a listener that speaks something else than the client, though not of these alone."""
REFUSED: Final = "connection refused"
"""The operating system's error for a port where nobody listens."""
CLOSED_LINE: Final = "If it is a node, the line `connection closed` in its log tells why."


def no_answer(situation: Situation) -> Iterator[Finding]:
    silent = [claim for claim in situation.claims if not runs_nevertheless(claim)]
    if situation.claims and not silent:
        return  # All of them refuse the login, or the connection.
    told = "; ".join(f"{claim.endpoint}: {claim.problem}" for claim in silent)
    advice = "Start those that do not run, or ask others."
    if situation.command_config is None:
        advice += " If their listeners use TLS or SASL, tell how to connect (`--command-config`)."
    elif any(is_closed(claim) for claim in silent):
        fits = f"do the port and `security.protocol` in {situation.command_config} fit it?"
        advice += f" Something runs where the connection is closed: {fits} {CLOSED_LINE}"
    here = situation.here
    if here is not None and leads_nowhere(situation):
        advice += (
            f" {KEY} in {here.file} names {', '.join(here.bootstrap)}: if the controllers listen elsewhere, name them "
            f"there, and restart node {here.node_id}."
        )
    if situation.voter_ids:
        majority = number_word(majority_of(len(situation.voter_ids)))
        advice += (
            f" By the log on this machine, the voters are {ids_text(situation.voter_ids)}, and {majority} of them are "
            f"needed. {recover_text(situation)}"
        )
    # A broker finds the controllers once they run.  Whether its own process runs, a closed port does not tell.
    command = start_command(situation) if here is None or here.is_controller else None
    yield Finding(Severity.CRITICAL, "no-answer", f"None of the nodes asked answers ({told}). {advice}", command)


def is_closed(claim: Claim) -> bool:
    return any(closed in (claim.problem or "") for closed in CLOSED)


def logins(situation: Situation) -> Iterator[Finding]:
    """Nodes that refuse the login, by what is to be done about it."""
    affected: dict[str, list[Claim]] = {}
    for claim in situation.claims:
        if claim.refused_login is not None:
            affected.setdefault(_login_advice(claim.problem or ""), []).append(claim)
    for advice, refusing in affected.items():
        named = joined([claim.name for claim in refusing])
        principals = joined(sorted({claim.refused_login for claim in refusing if claim.refused_login is not None}))
        verbs = "runs, but refuses" if len(refusing) == 1 else "run, but refuse"
        text = f"{capitalized(named)} {verbs} the login of {principals} ({refusing[0].problem}). {advice}"
        yield Finding(Severity.WARNING if situation.report else Severity.CRITICAL, "login", text)


def _login_advice(problem: str) -> str:
    """By Kafka's errors in the answer to SaslHandshake."""
    if "illegal_sasl_state" in problem:
        return "That listener asks for no login: correct `security.protocol`, or ask another listener."
    if "unsupported_sasl_mechanism" in problem:
        return "Name a mechanism that it has (`sasl.mechanism`, or between nodes `sasl.mechanism.controller.protocol`)."
    return "Check the user and its password on both sides: each node has its own file of users."


def tls(situation: Situation) -> Iterator[Finding]:
    """Nodes to which no connection can be made because of a certificate, by the cause."""
    affected: dict[tuple[str, str], list[Claim]] = {}
    for claim in situation.claims:
        found = tls_problem(claim.problem)
        if found is not None:
            affected.setdefault(found, []).append(claim)
    for (cause, remedy), claims in affected.items():
        named = joined([claim.name for claim in claims])
        verb = "runs" if len(claims) == 1 else "run"
        text = f"{capitalized(named)} {verb}, but TLS fails: {cause} ({claims[0].problem}). {remedy}"
        yield Finding(Severity.WARNING if situation.report else Severity.CRITICAL, "tls", text)


def node_denied(situation: Situation) -> Iterator[Finding]:
    for claim in situation.answers:
        if claim.denied_as is not None:
            text = (
                f"The leader denies {claim.name} CLUSTER_ACTION as {claim.denied_as}. Name that in the leader's "
                "`super.users`, or allow it by a rule, unless the node shows the certificate or login of another."
            )
            yield Finding(Severity.WARNING, "node-denied", text)


def denied(situation: Situation) -> Iterator[Finding]:
    denying = [claim for claim in situation.answers if claim.denial is not None]
    if not denying:
        return
    named = joined([claim.name for claim in denying])
    principals = joined(sorted({claim.denial for claim in denying if claim.denial is not None}))
    text = (
        f"{capitalized(named)} {'runs, but denies' if len(denying) == 1 else 'run, but deny'} "
        f"DESCRIBE to {principals}. Allow it on the cluster, or ask as somebody else (`--command-config`). "
        "If that is a node's principal, name it in `super.users`, or allow it CLUSTER_ACTION, too."
    )
    yield Finding(Severity.WARNING if situation.report else Severity.CRITICAL, "denied", text)
