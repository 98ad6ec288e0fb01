"""Whether a topic can be created: what does not fit among Apache Kafka's controllers and brokers.

A quorum can be well and its cluster not.  The rules compare four things that are told apart: who leads, whom each
controller names as the active one, who is registered, and who fetches the metadata.

| is registered | fetches | the rule for a broker                                             |
|---------------|---------|-------------------------------------------------------------------|
| unfenced      | yes     | well                                                              |
| unfenced      | no      | its metadata is old, or it has just ended                         |
| fenced        | yes     | it runs, but its heartbeats do not reach the active controller    |
| fenced        | no      | it is down, or gone for good                                      |
| not           | yes     | no registration of it came through; or it is no broker            |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kraft_trio.diagnosis.finding import Finding, Severity, capitalized, ids_text, joined, quorum_command
from kraft_trio.diagnosis.findings.bootstrap import looks_in_vain
from kraft_trio.diagnosis.findings.connecting import REFUSED
from kraft_trio.diagnosis.findings.led import report_of
from kraft_trio.diagnosis.quorum_situation import Claim, Situation
from kraft_trio.protocol.kafka_cluster import KafkaCluster

SHOWN: Final = 20
"""Ids that one finding lists."""
_CUT_OFF: Final = "check the network from there to the controllers, and restart"
UNREGISTER: Final = "bin/kafka-cluster.sh unregister --bootstrap-controller {} --id {}"


def is_controller(claim: Claim) -> bool:
    """Whether the claim is that of a controller of Kafka's, which tells neither its log nor its voters."""
    return claim.problem is None and claim.log_end is None and claim.denial is None and not claim.is_broker


def witness_leads(situation: Situation) -> Iterator[Finding]:
    report, leader = report_of(situation), _leader(situation)
    if leader is None or not leader.is_witness:
        return
    behind = [voter.id for voter in report.voters if voter.id != report.leader_id and not voter.health.is_up]
    answering = {claim.node_id for claim in situation.answers}
    silent = [voter_id for voter_id in behind if voter_id not in answering]
    todo = [f"Start the other voters ({ids_text(silent)})."] if silent else []
    todo += [
        f"Node {voter_id} answers here: see whether it reaches node {report.leader_id}, and is reached from there."
        for voter_id in behind
        if voter_id in answering
    ]
    text = (
        f"Node {report.leader_id} leads, and is a witness: nothing can be written, no controller of Kafka is active, "
        f"and no topic can be created. It hands over to the first voter that has caught up. "
        f"{' '.join(todo) or 'Ask again in a few seconds.'}"
    )
    yield Finding(Severity.CRITICAL, "witness-leads", text)


def other_controllers(situation: Situation) -> Iterator[Finding]:
    """Controllers that send those who ask them to somebody who does not lead."""
    report = report_of(situation)
    for claim in situation.answers:
        if claim.registered_ids is None or report.leader_id in (claim.leader_id, claim.node_id):
            continue
        if looks_in_vain(situation, claim):
            continue
        named = "no active controller" if claim.leader_id is None else f"node {claim.leader_id} as active controller"
        text = (
            f"{capitalized(claim.name)} names {named}, but node {report.leader_id} leads epoch {report.epoch}. "
            "Who asks it is sent astray. Ask again; if this lasts, check the network between the two, and restart it."
        )
        yield Finding(Severity.WARNING, "other-controller", text)


def not_registered(situation: Situation) -> Iterator[Finding]:
    """Voters, by what the active controller says; and others that fetch, by the metadata."""
    report, leader = report_of(situation), _leader(situation)
    registered = None if leader is None else leader.registered_ids
    up = {voter.id for voter in report.voters if voter.health.is_up}
    witnesses = {claim.node_id for claim in situation.answers if claim.is_witness}
    for voter_id in () if registered is None else sorted(set(report.voter_ids) - set(registered)):
        who, without = f"Voter {voter_id}", "clients are not sent to it, and features cannot be upgraded"
        if voter_id in up:
            text = (
                f"{who}, a {'witness' if voter_id in witnesses else 'controller'}, is not registered with the active "
                f"controller, node {report.leader_id}. It votes, but {without}. Unless it has just started, its log "
                "tells why (`ControllerRegistrationManager`; of a witness `registration refused`)."
            )
        else:
            text = (
                f"{who} is not registered with the active controller, node {report.leader_id}. It registers once it is "
                f"started; until then, {without}."
            )
        yield Finding(Severity.WARNING, "not-registered", text)
    cluster = _cluster(situation)
    if cluster is None:
        return
    known = {broker.id for broker in cluster.brokers} | set(report.voter_ids)
    known |= {id for claim in situation.answers for id in claim.registered_ids or ()}
    ours = {claim.node_id for claim in situation.answers if claim.log_end is not None}
    unknown = {id for id in _fetching(situation) - known if id not in ours}
    starting = _starting(situation)
    others = sorted(unknown - starting)
    for id in unknown & starting:
        text = (
            f"Broker {id} is starting: it fetches the metadata, and is not registered yet. If that lasts a minute, it "
            "ends, and its log tells why."
        )
        yield Finding(Severity.NOTE, "not-registered", text)
    if others:
        nodes = f"Node {others[0]} fetches" if len(others) == 1 else f"Nodes {_listed(others)} fetch"
        text = (
            f"{nodes} the metadata, but {'is' if len(others) == 1 else 'are'} registered neither as a broker nor as a "
            "controller. Unless just started, or an observer of kraft-trio, the log there tells why it is refused."
        )
        yield Finding(Severity.WARNING, "not-registered", text)


def retired_controllers(situation: Situation) -> Iterator[Finding]:
    report, leader = report_of(situation), _leader(situation)
    registered = set() if leader is None else set(leader.registered_ids or ())
    answering = {claim.node_id for claim in situation.answers if claim.node_id is not None}
    retired = sorted(registered - set(report.voter_ids) - _fetching(situation) - answering)
    if retired:
        controllers = f"Controller {retired[0]} is" if len(retired) == 1 else f"Controllers {_listed(retired)} are"
        text = (
            f"{controllers} registered, but {'neither votes nor fetches' if len(retired) == 1 else 'do not fetch'}. "
            f"{'Its' if len(retired) == 1 else 'Their'} last features limit upgrades. From Kafka 4.4 on, "
            "unregister what is retired for good."
        )
        command = quorum_command(situation, f"remove-controller -i {retired[0]} --if-exists --unregister")
        yield Finding(Severity.NOTE, "retired-controller", text, command)


def cut_off_brokers(situation: Situation) -> Iterator[Finding]:
    for claim in situation.answers:
        if claim.is_broker and claim.forwarding_problem is not None:
            text = (
                f"Broker {claim.node_id if claim.node_id is not None else claim.endpoint} answers, but gets no answer "
                f"from the active controller ({claim.forwarding_problem}): through it, no topic can be created. Ask "
                "again; if this lasts, check the network from it to the controllers, and restart it."
            )
            yield Finding(Severity.WARNING, "cut-off-broker", text)


def no_brokers(situation: Situation) -> Iterator[Finding]:
    cluster = _cluster(situation)
    if cluster is not None and not cluster.brokers:
        yield Finding(Severity.NOTE, "no-broker", "No broker is registered: no topic can be created yet.")


def brokers_not_read(situation: Situation) -> Iterator[Finding]:
    if situation.cluster is not None and not situation.cluster.is_read:
        problem = situation.cluster.problem or "the metadata was not read to its end in time: ask again"
        text = f"The brokers are not told: {problem}."
        yield Finding(Severity.NOTE, "brokers-not-read", text)


def fenced_brokers(situation: Situation) -> Iterator[Finding]:
    cluster, fetching = _cluster(situation), _fetching(situation)
    fenced = set() if cluster is None else {broker.id for broker in cluster.brokers if broker.is_fenced}
    if cluster is None or not fenced:
        return
    are_all = len(fenced) == len(cluster.brokers)
    starting = fenced & fetching & _starting(situation)
    running, answering = sorted((fenced & fetching) - starting), (fenced - fetching) & _answering_brokers(situation)
    gone = sorted(fenced - fetching - answering)
    text = (
        f"No topic can be created: all brokers ({_listed(sorted(fenced))}) are"
        if are_all
        else f"{_many(fenced, 'is', 'are')}"
    )
    text += " fenced: the active controller has no heartbeats."
    if running:
        text += (
            f" {_many(running, 'runs and fetches', 'run and fetch')} the metadata. Unless just started, look for "
            "`BrokerLifecycleManager` in the log there, and restart."
        )
    if starting:
        text += f" {_many(starting, 'is', 'are')} starting: ask again in a few seconds."
    if answering:
        text += (
            f" {_many(answering, 'answers here, but does', 'answer here, but do')} not fetch the metadata: {_CUT_OFF}."
        )
    if gone:
        text += f" {_many(gone, 'does', 'do')} not fetch: start, or unregister what is gone for good."
    asked = ",".join(claim.endpoint for claim in situation.answers if is_controller(claim))
    command = UNREGISTER.format(asked, gone[0]) if gone and not are_all else None
    yield Finding(Severity.CRITICAL if are_all else Severity.WARNING, "brokers-fenced", text, command)


def stale_brokers(situation: Situation) -> Iterator[Finding]:
    cluster, fetching = _cluster(situation), _fetching(situation)
    running = () if cluster is None else [broker.id for broker in cluster.brokers if not broker.is_fenced]
    stale = sorted(set(running) - fetching)
    if stale:
        is_there = set(stale) <= _answering_brokers(situation)
        ended = f"Either {'it has' if len(stale) == 1 else 'they have'} just ended, or what"
        text = (
            f"{_many(stale, 'counts', 'count')} as running, but the metadata was not fetched lately. "
            f"{'What' if is_there else ended} clients hear there is old: {_CUT_OFF}."
        )
        yield Finding(Severity.WARNING, "stale-broker", text)


def too_few_brokers(situation: Situation) -> Iterator[Finding]:
    cluster = _cluster(situation)
    if cluster is None or cluster.widest_topic is None:
        return
    (name, replicas), count = cluster.widest_topic, len(cluster.brokers)
    if 0 < count < replicas:
        text = (
            f"{count} {'broker is' if count == 1 else 'brokers are'} registered, fewer than the {replicas} replicas of "
            f"topic {name}. Another topic with so many replicas cannot be created. Start the missing brokers."
        )
        yield Finding(Severity.WARNING, "too-few-brokers", text)


def _leader(situation: Situation) -> Claim | None:
    leader_id = report_of(situation).leader_id
    return next((claim for claim in situation.answers if claim.node_id == leader_id), None)


def _cluster(situation: Situation) -> KafkaCluster | None:
    """What the metadata says, if it was read to its end, and is that of Kafka's controllers."""
    cluster = situation.cluster
    if cluster is None or not cluster.is_read or not any(is_controller(claim) for claim in situation.answers):
        return None
    return cluster


def _fetching(situation: Situation) -> set[int]:
    """Who fetches the metadata, or leads.  A controller may be a broker, too."""
    report = report_of(situation)
    voters = {voter.id for voter in report.voters if voter.health.is_up}
    return voters | {observer.id for observer in report.observers if observer.fetches}


def _starting(situation: Situation) -> set[int]:
    """The broker of this machine, if its port is still closed: it opens that once it is unfenced.

    Of those on other machines, nothing tells when they were started.
    """
    here = situation.here
    if here is None or here.is_controller:
        return set()
    claim = situation.claim_of(here.node_id)
    return {here.node_id} if claim is not None and REFUSED in (claim.problem or "").lower() else set()


def _answering_brokers(situation: Situation) -> set[int]:
    return {claim.node_id for claim in situation.answers if claim.is_broker and claim.node_id is not None}


def _many(ids: set[int] | list[int], one: str, several: str) -> str:
    """The brokers of these ids, with the verb."""
    return f"Broker {ids_text(ids)} {one}" if len(ids) == 1 else f"Brokers {_listed(sorted(ids))} {several}"


def _listed(ids: list[int]) -> str:
    """Some of the ids, and how many more there are: they come from strangers."""
    shown = [str(id) for id in ids[:SHOWN]]
    return joined(shown) if len(ids) <= SHOWN else f"{', '.join(shown)} and {len(ids) - SHOWN} more"
