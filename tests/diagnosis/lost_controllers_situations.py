"""Controllers of Kafka that lack their disk, address, cluster or leader, and what their files on this machine say."""

from __future__ import annotations

import attrs

from kraft_trio.diagnosis.quorum_situation import FoundHere, ObserverReport, Situation
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from tests.diagnosis.controllers_situations import (
    BOTH,
    SURVIVES,
    controller,
    fetched_by,
    stranger,
)
from tests.diagnosis.situations import NEW, OFFLINE, OLD, UP, kafka, led, says, silent

SITUATIONS: dict[str, tuple[Situation, list[tuple[str, str, str]]]] = {
    "a controller with a blank disk": (
        Situation(
            (controller(1), controller(2), attrs.evolve(controller(3), directory_id=NEW)),
            attrs.evolve(
                led(UP, UP, OFFLINE, directory_id=OLD),
                observers=(ObserverReport(3, NEW), ObserverReport(10), ObserverReport(11)),
            ),
            cluster=BOTH,
        ),
        [
            ("warning", "other-directory", "the node has a blank or another disk, so it does not vote"),
            ("warning", "survival", ""),
            (
                "warning",
                "voter-behind",
                "Voter 3 is offline: last fetched 9 s ago. Its node runs with another directory",
            ),
        ],
    ),
    "a controller of Kafka that does not find the leader": (
        Situation((controller(1), controller(2), controller(3), controller(4, leader=None)), fetched_by(10, 11)),
        [
            (
                "warning",
                "no-way-to-leader",
                "Node 4 is no voter, and knows no leader. It looks for node 1 at host1:9093 at the servers in "
                "`controller.quorum.bootstrap.servers` of its file: name that node there, and restart it.",
            ),
            ("note", "observers", ""),
            SURVIVES,
        ],
    ),
    "a controller of Kafka's announces an address where nobody listens": (
        Situation(
            (controller(1), silent(2), controller(3), attrs.evolve(controller(2), endpoint="there:9093", node_id=None)),
            fetched_by(10, 11),
            cluster=BOTH,
        ),
        [
            (
                "warning",
                "dead-address",
                "Nobody listens at host2:9093, where node 2 is said to listen, but the leader hears it. Nobody names "
                "the node at there:9093: if that is node 2, correct `advertised.listeners` in its file, and restart",
            ),
            ("note", "not-reached", "Node 2 does not answer here (connection refused), but the leader hears it"),
            SURVIVES,
        ],
    ),
    "a controller of Kafka's of another cluster looks for the leader here": (
        Situation((controller(1), controller(2), controller(3), stranger(4)), fetched_by(10, 11)),
        [
            (
                "critical",
                "clusters",
                "node 3 to c, node 4 to another one. Ask those of one cluster, and correct the addresses that led to",
            ),
            ("note", "observers", ""),
        ],
    ),
    "a controller of Kafka's of another cluster has the address of a voter": (
        Situation((controller(1), controller(2), stranger(3)), fetched_by(10, 11, health=(UP, UP, OFFLINE))),
        [
            ("critical", "clusters", "node 2 to c, node 3 to another one."),
            ("warning", "survival", ""),
            ("warning", "voter-behind", "Another cluster's node answers at its address, host3:9093."),
        ],
    ),
    "after a recovery, a node's list lacks the survivor": (
        Situation(
            (
                says(1, voter_ids=(1,)),
                says(2, epoch=0, leader=None, end=(0, 0), voter_ids=None, bootstrap=("host2:9093", "host3:9093")),
            ),
            led(UP),
        ),
        [
            (
                "warning",
                "no-way-to-leader",
                "`controller.quorum.bootstrap.servers` in its file names host2:9093, host3:9093, which does not lead "
                "to node 1 at host1:9093: name that node there, and restart it.",
            ),
            ("note", "observers", ""),
            ("note", "survival", ""),
        ],
    ),
    "a list that leads to the leader through another node": (
        Situation(
            (
                says(1, voter_ids=(1,)),
                says(2, voter_ids=(1,)),
                says(3, epoch=0, leader=None, end=(0, 0), voter_ids=None, bootstrap=("host2:9093",)),
            ),
            led(UP),
        ),
        [
            (
                "warning",
                "no-way-to-leader",
                "names who knows node 1 at host1:9093: it has just started, or the network",
            ),
            ("note", "observers", ""),
            ("note", "survival", ""),
        ],
    ),
    "two controllers of Kafka are down, and the third has its file here": (
        Situation(
            (kafka(1, None), silent(2), silent(3)),
            here=FoundHere(
                1, "/etc/1.properties", is_down=False, voter_keys=tuple(ReplicaKey(id, OLD) for id in (1, 2, 3))
            ),
        ),
        [
            (
                "critical",
                "no-majority",
                "two of the voters 1, 2, 3 are needed, and one can be reached. Silent: 2 (connection refused), 3 "
                "(connection refused). Start one of them. Only if their disks are lost for good: stop node 1, and see "
                "with `kraft storage recover -c /etc/1.properties --unsafe-only-voter` what is lost then",
            ),
        ],
    ),
    "two static voters are down, and the third has its file here": (
        Situation(
            (kafka(1, None), silent(2), silent(3)),
            here=FoundHere(
                1, "/1", is_down=False, voter_keys=tuple(ReplicaKey(id, NO_DIRECTORY_ID) for id in (1, 2, 3))
            ),
        ),
        [("critical", "no-majority", "Start one of them. Only if their disks are lost for good, recover one replica")],
    ),
    "all voters are down, and one has its file here": (
        Situation(
            (silent(1), silent(2), silent(3)),
            here=FoundHere(3, "/a b", is_down=True, voter_keys=tuple(ReplicaKey(id, OLD) for id in (1, 2, 3))),
        ),
        [
            (
                "critical",
                "no-answer",
                "By the log on this machine, the voters are 1, 2, 3, and two of them are needed. Only if their disks "
                "are lost for good: see with `kraft storage recover -c '/a b' --unsafe-only-voter` what is lost then;",
            ),
        ],
    ),
}
