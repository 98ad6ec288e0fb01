"""Clusters of Kafka whose quorum has a leader, and what does not fit among controllers and brokers."""

from __future__ import annotations

from typing import Any

import attrs

from kraft_trio.diagnosis.quorum_situation import Claim, FoundHere, LeaderReport, ObserverReport, Situation
from kraft_trio.protocol.kafka_cluster import KafkaCluster, RegisteredBroker
from kraft_trio.protocol.replica_health import ReplicaHealth
from tests.diagnosis.situations import OFFLINE, UP, bare, kafka, led, of_broker, says, silent


def controller(node_id: int, leader: int | None = 1, registered: tuple[int, ...] = (1, 2, 3)) -> Claim:
    return attrs.evolve(kafka(node_id, leader), epoch=5 if node_id == leader else None, registered_ids=registered)


CONTROLLERS = (controller(1), controller(2), controller(3))


def broker(node_id: int, **more: Any) -> Claim:
    return Claim(f"host{node_id}:9092", node_id=node_id, cluster_id="c", epoch=5, leader_id=1, is_broker=True, **more)


def stranger(node_id: int) -> Claim:
    return attrs.evolve(bare(node_id), is_of_other_cluster=True, epoch=None)


def fetched_by(
    *ids: int, health: tuple[ReplicaHealth, ...] = (UP, UP, UP), stale: tuple[int, ...] = ()
) -> LeaderReport:
    observers = (*(ObserverReport(id) for id in ids), *(ObserverReport(id, fetches=False) for id in stale))
    return led(*health, observers=observers)


def cluster(*brokers: RegisteredBroker, **more: Any) -> KafkaCluster:
    return KafkaCluster(brokers, **more)


def running(id: int) -> RegisteredBroker:
    return RegisteredBroker(id, is_fenced=False)


def fenced(id: int) -> RegisteredBroker:
    return RegisteredBroker(id, is_fenced=True)


def here(node_id: int, *, is_down: bool = True) -> FoundHere:
    """The file of a broker on this machine."""
    return FoundHere(node_id, "/b", is_down=is_down, is_controller=False)


BOTH = cluster(running(10), running(11))
SURVIVES = ("ok", "survival", "survives 1 more failure now")

SITUATIONS: dict[str, tuple[Situation, list[tuple[str, str, str]]]] = {
    "controllers and brokers that are well": (
        Situation(CONTROLLERS, fetched_by(10, 11), cluster=BOTH),
        [SURVIVES],
    ),
    "a witness leads while controllers are down": (
        Situation(
            (silent(1), controller(2, leader=3), says(3, leader=3, is_witness=True)),
            attrs.evolve(fetched_by(health=(OFFLINE, OFFLINE, UP)), leader_id=3),
        ),
        [
            ("critical", "survival", "Nothing can be committed: 1 of 3"),
            (
                "critical",
                "witness-leads",
                "Node 3 leads, and is a witness: nothing can be written, no controller of Kafka is active, and no "
                "topic can be created. It hands over to the first voter that has caught up. Start the other voters "
                "(1). Node 2 answers here: see whether it reaches node 3, and is reached from there.",
            ),
            ("warning", "voter-behind", "Voter 1 is offline"),
            ("warning", "voter-behind", "Voter 2 is offline"),
        ],
    ),
    "a witness leads for a moment": (
        Situation(
            (controller(1, leader=3), controller(2, leader=3), says(3, leader=3, is_witness=True)),
            attrs.evolve(fetched_by(), leader_id=3),
        ),
        [("critical", "witness-leads", "caught up. Ask again in a few seconds.")],
    ),
    "a witness that follows": (
        Situation((controller(1), controller(2), says(3, is_witness=True)), fetched_by(10, 11), cluster=BOTH),
        [SURVIVES],
    ),
    "a controller that names another one": (
        Situation((controller(1), controller(2, leader=3), controller(3)), fetched_by(10, 11), cluster=BOTH),
        [
            (
                "warning",
                "other-controller",
                "Node 2 names node 3 as active controller, but node 1 leads epoch 5. Who asks it is sent astray.",
            ),
            SURVIVES,
        ],
    ),
    "a controller that names none": (
        Situation((controller(1), controller(2, leader=None), controller(3)), fetched_by(10, 11), cluster=BOTH),
        [("warning", "other-controller", "Node 2 names no active controller, but node 1 leads epoch 5."), SURVIVES],
    ),
    "a voter that runs and has never registered": (
        Situation(tuple(controller(id, registered=(1, 2)) for id in (1, 2, 3)), fetched_by(10, 11), cluster=BOTH),
        [
            (
                "warning",
                "not-registered",
                "Voter 3, a controller, is not registered with the active controller, node 1. It votes, but clients "
                "are not sent to it, and features cannot be upgraded. Unless it has just started, its log tells why",
            ),
            SURVIVES,
        ],
    ),
    "a voter that has never registered, and is down": (
        Situation(
            (controller(1, registered=(1, 2)), controller(2, registered=(1, 2)), silent(3)),
            fetched_by(10, 11, health=(UP, UP, OFFLINE)),
            cluster=BOTH,
        ),
        [
            ("warning", "survival", ""),
            ("warning", "voter-behind", "Voter 3 is offline"),
            (
                "warning",
                "not-registered",
                "Voter 3 is not registered with the active controller, node 1. It registers once it",
            ),
        ],
    ),
    "a controller that is retired": (
        Situation(tuple(controller(id, registered=(1, 2, 3, 4)) for id in (1, 2, 3)), fetched_by(10, 11), cluster=BOTH),
        [
            (
                "note",
                "retired-controller",
                "Controller 4 is registered, but neither votes nor fetches. Its last features limit upgrades. From "
                "Kafka 4.4 on, unregister what is retired for good.",
            ),
            SURVIVES,
        ],
    ),
    "a spare controller": (
        Situation(
            (*(controller(id, registered=(1, 2, 3, 4)) for id in (1, 2, 3)), controller(4, registered=(1, 2, 3, 4))),
            fetched_by(4, 10, 11),
            cluster=BOTH,
        ),
        [("note", "observers", "Not voters: 4."), SURVIVES],
    ),
    "all brokers are fenced, and down": (
        Situation(CONTROLLERS, fetched_by(stale=(10,)), cluster=cluster(fenced(10), fenced(11))),
        [
            (
                "critical",
                "brokers-fenced",
                "No topic can be created: all brokers (10 and 11) are fenced: the active controller has no heartbeats. "
                "Brokers 10 and 11 do not fetch: start, or unregister what is gone for good.",
            ),
        ],
    ),
    "all brokers run, and are fenced": (
        Situation(CONTROLLERS, fetched_by(10, 11), cluster=cluster(fenced(10), fenced(11))),
        [
            (
                "critical",
                "brokers-fenced",
                "Brokers 10 and 11 run and fetch the metadata. Unless just started, look",
            ),
        ],
    ),
    "one broker is down": (
        Situation(CONTROLLERS, fetched_by(10), cluster=cluster(running(10), fenced(11))),
        [
            (
                "warning",
                "brokers-fenced",
                "Broker 11 is fenced: the active controller has no heartbeats. Broker 11 does not fetch: start, or "
                "unregister what is gone for good.",
            ),
            SURVIVES,
        ],
    ),
    "one broker runs, and is fenced": (
        Situation(CONTROLLERS, fetched_by(10, 11), cluster=cluster(running(10), fenced(11))),
        [("warning", "brokers-fenced", "Broker 11 runs and fetches the metadata. Unless just started"), SURVIVES],
    ),
    "one broker is fenced, and answers here": (
        Situation((*CONTROLLERS, broker(11)), fetched_by(10), cluster=cluster(running(10), fenced(11))),
        [
            (
                "warning",
                "brokers-fenced",
                "Broker 11 is fenced: the active controller has no heartbeats. Broker 11 answers here, but does not "
                "fetch the metadata: check the network from there to the controllers, and restart.",
            ),
            ("note", "observers", "Not voters: 11."),
            SURVIVES,
        ],
    ),
    "all brokers are fenced, and one answers here": (
        Situation((*CONTROLLERS, broker(10)), fetched_by(stale=(10,)), cluster=cluster(fenced(10), fenced(11))),
        [
            (
                "critical",
                "brokers-fenced",
                "check the network from there to the controllers, and restart. Broker 11 does not fetch: start, or",
            ),
            ("note", "observers", "Not voters: 10."),
        ],
    ),
    "a broker that answers here, and whose metadata is old": (
        Situation((*CONTROLLERS, broker(11)), fetched_by(10, stale=(11,)), cluster=BOTH),
        [
            (
                "warning",
                "stale-broker",
                "Broker 11 counts as running, but the metadata was not fetched lately. What clients hear there is old",
            ),
            ("note", "observers", "Not voters: 11."),
            SURVIVES,
        ],
    ),
    "a broker whose metadata is old": (
        Situation(CONTROLLERS, fetched_by(10, stale=(11,)), cluster=BOTH),
        [
            ("warning", "stale-broker", "Broker 11 counts as running, but the metadata was not fetched lately."),
            SURVIVES,
        ],
    ),
    "a broker whose registration is refused": (
        Situation(CONTROLLERS, fetched_by(10, 11, 12), cluster=BOTH),
        [
            (
                "warning",
                "not-registered",
                "Node 12 fetches the metadata, but is registered neither as a broker nor as a controller. Unless just",
            ),
            SURVIVES,
        ],
    ),
    "a broker that is starting, and not registered yet": (
        Situation((*CONTROLLERS, silent(12)), fetched_by(10, 11, 12), cluster=BOTH, here=here(12)),
        [
            ("note", "not-registered", "Broker 12 is starting: it fetches the metadata, and is not registered yet. If"),
            SURVIVES,
        ],
    ),
    "a broker that is starting beside one whose registration is refused": (
        Situation((*CONTROLLERS, silent(12)), fetched_by(10, 11, 12, 13), cluster=BOTH, here=here(12)),
        [
            ("warning", "not-registered", "Node 13 fetches the metadata, but is registered neither"),
            ("note", "not-registered", "Broker 12 is starting"),
            SURVIVES,
        ],
    ),
    "a broker that runs without a registration": (
        Situation((*CONTROLLERS, broker(12)), fetched_by(10, 11, 12), cluster=BOTH, here=here(12, is_down=False)),
        [
            ("warning", "not-registered", "Node 12 fetches the metadata, but is registered neither"),
            ("note", "observers", ""),
            SURVIVES,
        ],
    ),
    "a broker that is starting, and fenced": (
        Situation(
            (*CONTROLLERS, silent(11)), fetched_by(10, 11), cluster=cluster(running(10), fenced(11)), here=here(11)
        ),
        [("warning", "brokers-fenced", "heartbeats. Broker 11 is starting: ask again in a few seconds."), SURVIVES],
    ),
    "a broker whose list leads to nobody, with the leader known by its log": (
        Situation(
            (*CONTROLLERS, silent(7), silent(8), silent(10)),
            fetched_by(10, 11),
            cluster=BOTH,
            here=of_broker("host7:9093", "host8:9093"),
        ),
        [
            (
                "warning",
                "wrong-list",
                "No controller answers at the servers in `controller.quorum.bootstrap.servers` of /10: host7:9093, "
                "host8:9093. By them, node 10 does not find a new leader. Name those that answer, such as "
                "`controller.quorum.bootstrap.servers=host1:9093,host2:9093,host3:9093`, and restart it.",
            ),
            SURVIVES,
        ],
    ),
    "a list that names a broker": (
        Situation((*CONTROLLERS, broker(11)), fetched_by(10, 11), cluster=BOTH, here=of_broker("host11:9092")),
        [("warning", "wrong-list", "of /10: host11:9092. By them"), ("note", "observers", ""), SURVIVES],
    ),
    "a list of which one server answers": (
        Situation(
            (*CONTROLLERS, silent(7)), fetched_by(10, 11), cluster=BOTH, here=of_broker("host7:9093", "host2:9093")
        ),
        [SURVIVES],
    ),
    "a list that was not asked": (
        Situation(CONTROLLERS, fetched_by(10, 11), cluster=BOTH, here=of_broker("elsewhere:9093")),
        [SURVIVES],
    ),
    "an observer of ours": (
        Situation((*CONTROLLERS, says(20)), fetched_by(10, 11, 20), cluster=BOTH),
        [("note", "observers", "Not voters: 20."), SURVIVES],
    ),
    "fewer brokers than a topic has replicas": (
        Situation(CONTROLLERS, fetched_by(10, 11), cluster=attrs.evolve(BOTH, widest_topic=("orders", 3))),
        [
            (
                "warning",
                "too-few-brokers",
                "2 brokers are registered, fewer than the 3 replicas of topic orders. Another topic with so many "
                "replicas cannot be created.",
            ),
            SURVIVES,
        ],
    ),
    "no broker yet": (
        Situation(CONTROLLERS, fetched_by(), cluster=cluster()),
        [("note", "no-broker", "No broker is registered: no topic can be created yet."), SURVIVES],
    ),
    "brokers that could not be read": (
        Situation(CONTROLLERS, fetched_by(10, 11), cluster=cluster(is_read=False)),
        [("note", "brokers-not-read", "The brokers are not told"), SURVIVES],
    ),
    "very many brokers are down": (
        Situation(CONTROLLERS, fetched_by(10), cluster=cluster(running(10), *map(fenced, range(100, 1100)))),
        [("warning", "brokers-fenced", "Brokers 100, 101, 102, 103"), SURVIVES],
    ),
    "brokers that may not be read": (
        Situation(CONTROLLERS, fetched_by(10, 11), cluster=cluster(is_read=False, problem="Fetch: DENIED")),
        [("note", "brokers-not-read", "The brokers are not told: Fetch: DENIED."), SURVIVES],
    ),
    "controllers that are brokers, too": (
        Situation(CONTROLLERS, fetched_by(), cluster=cluster(running(1), running(2), running(3))),
        [SURVIVES],
    ),
    "a controller that is a broker is fenced": (
        Situation(CONTROLLERS, fetched_by(), cluster=cluster(running(1), running(2), fenced(3))),
        [("warning", "brokers-fenced", "Broker 3 runs and fetches the metadata."), SURVIVES],
    ),
    "a broker that does not reach the active controller": (
        Situation(
            (*CONTROLLERS, attrs.evolve(broker(10, forwarding_problem="no answer within 2500 ms"), epoch=None)),
            fetched_by(10, 11),
            cluster=BOTH,
        ),
        [
            (
                "warning",
                "cut-off-broker",
                "Broker 10 answers, but gets no answer from the active controller (no answer within 2500 ms): through "
                "it, no topic can be created.",
            ),
            ("note", "observers", "Not voters: 10."),
            SURVIVES,
        ],
    ),
}
