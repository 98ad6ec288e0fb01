"""Nodes none of which answers as leader, and what is concluded."""

from __future__ import annotations

import attrs

from kraft_trio.diagnosis.quorum_situation import FoundHere, Situation
from kraft_trio.protocol.types import directory_id_to_text
from tests.diagnosis.situations import (
    NEW,
    OLD,
    bare,
    disk,
    fails_tls,
    kafka,
    keys_text,
    listed,
    of_broker,
    refuses_login,
    registered,
    says,
    silent,
    static,
)

OLD_TEXT, NEW_TEXT = map(directory_id_to_text, (OLD, NEW))

SITUATIONS: dict[str, tuple[Situation, list[tuple[str, str, str]]]] = {
    "two of three voters have blank disks": (
        Situation((disk(1, OLD, leader=None), disk(2, NEW, leader=None), disk(3, NEW, leader=None))),
        [
            (
                "critical",
                "other-disks",
                "No leader is possible: two of the voters 1, 2, 3 are needed with their disks, and one has it. "
                f"Missing: voter 2 with directory id {OLD_TEXT} (its node runs with {NEW_TEXT}) and voter 3 with "
                f"directory id {OLD_TEXT} (its node runs with {NEW_TEXT}): blank or other disks, which do not vote. "
                "Mount those disks again. Leave node 1 as it is: nobody else may have the records.",
            ),
        ],
    ),
    "one disk is blank, and one voter is silent": (
        Situation((disk(1, OLD, leader=None), disk(2, NEW, leader=None), silent(3))),
        [
            ("critical", "other-disks", "No leader: two of the voters 1, 2, 3 are needed with their disks"),
            ("critical", "no-majority", "one can be reached. Silent: 3 (connection refused). Start one of them"),
        ],
    ),
    "a controller of Kafka's and a witness have blank disks": (
        Situation(
            (
                registered(1),
                bare(2),
                says(3, epoch=4, leader=None, end=(0, 0), voter_ids=None, is_witness=True, kraft_version=0),
            )
        ),
        [
            (
                "critical",
                "other-disks",
                "one has it. Missing: voter 2 (its node has no metadata) and voter 3 (its node has an empty log, and "
                "knows no voters): blank or other disks, which do not vote. Mount those disks again. Leave node 1 as "
                "it is",
            ),
        ],
    ),
    "a controller of Kafka's of another cluster has the address of a voter": (
        Situation((registered(1), attrs.evolve(bare(2), is_of_other_cluster=True, epoch=None), silent(3))),
        [
            ("critical", "clusters", "node 1 to c, node 2 to another one."),
            (
                "critical",
                "no-majority",
                "one can be reached. Silent: 2 (another cluster's node answers at host2:9093), 3 (connection refused).",
            ),
        ],
    ),
    "a controller of Kafka's names a leader whose port refuses connections": (
        Situation((silent(1), registered(2, leader_id=1), silent(3))),
        [("critical", "no-majority", "two of the voters 1, 2, 3 are needed, and one can be reached.")],
    ),
    "a controller of Kafka's names a leader that does not answer here": (
        Situation((attrs.evolve(silent(1), problem="no answer"), registered(2, leader_id=1), silent(3))),
        [
            ("critical", "no-majority", "two of the voters 1, 2, 3 are needed, and one can be reached."),
            ("warning", "leader-not-reached", "Voters 2 follow node 1 in epoch 4, which does not answer here."),
        ],
    ),
    "a blank disk is no second process": (
        Situation(
            (
                disk(1, OLD, leader=None),
                disk(2, NEW, leader=None, shared_id=(2, "the leader has this node's id")),
                disk(3, NEW, leader=None),
            )
        ),
        [("critical", "other-disks", "No leader is possible")],
    ),
    "without a leader, nobody counts as removed": (
        Situation(
            (says(1, leader=None), says(2, leader=None), says(4, leader=None, voter_ids=(1, 2, 3, 4), end=(9, 5)))
        ),
        [("critical", "no-leader", "These can win: node 1, node 2"), ("note", "observers", "Not voters: 4.")],
    ),
    "nobody answers": (
        Situation((silent(1), silent(2))),
        [("critical", "no-answer", "host1:9093: connection refused; host2:9093: connection refused")],
    ),
    "every node refuses the login": (
        Situation((refuses_login(1), refuses_login(2))),
        [("critical", "login", "Node 1 and node 2 run, but refuse the login of User:op (SASL: x). Check the user")],
    ),
    "one node refuses the login, and one does not answer": (
        Situation((refuses_login(1), silent(2))),
        [
            ("critical", "login", "Node 1 runs, but refuses the login of User:op"),
            ("critical", "no-answer", "None of the nodes asked answers (host2:9093: connection refused). Start those"),
        ],
    ),
    "the certificates of all nodes have expired": (
        Situation((fails_tls(1), fails_tls(2))),
        [
            (
                "critical",
                "tls",
                "Node 1 and node 2 run, but TLS fails: the certificate there has expired (TLS handshake failed",
            )
        ],
    ),
    "the certificate of one node has expired, and one does not answer": (
        Situation((fails_tls(1), silent(2))),
        [
            ("critical", "tls", "Node 1 runs, but TLS fails: the certificate there has expired"),
            ("critical", "no-answer", "None of the nodes asked answers (host2:9093: connection refused). Start those"),
        ],
    ),
    "a majority with expired certificates is not known to be down": (
        Situation((says(1, leader=None), fails_tls(2), fails_tls(3))),
        [("critical", "tls", "Node 2 and node 3 run")],
    ),
    "a majority that refuses the login is not known to be down": (
        Situation((says(1, leader=None), refuses_login(2), refuses_login(3))),
        [("critical", "login", "Node 2 and node 3 run")],
    ),
    "a leader that denies DESCRIBE may well lead": (
        Situation((attrs.evolve(says(1), denial="User:a"), says(2), says(3))),
        [("critical", "denied", "Node 1 runs, but denies DESCRIBE to User:a")],
    ),
    "too few voters answer": (
        Situation((says(1, leader=None), silent(2))),
        [
            (
                "critical",
                "no-majority",
                "two of the voters 1, 2, 3 are needed, and one can be reached. Silent: 2 (connection refused), "
                "3 (nobody tells its address). Start one of them.",
            )
        ],
    ),
    "an observer does not make a majority": (
        Situation((says(1, leader=None), says(9, leader=None), silent(2), silent(3))),
        [("critical", "no-majority", "and one can be reached"), ("note", "observers", "Not voters: 9.")],
    ),
    "a log that is behind": (
        Situation((says(1, leader=None, end=(9, 5)), says(2, leader=None), says(3, leader=None, end=(50, 4)))),
        [
            ("critical", "no-leader", "These can win: node 1, node 2. An election is under way"),
            (
                "note",
                "refused",
                "The log of node 1 ends at offset 9, epoch 5. Nodes with newer logs refuse it: node 2 (offset 10, ",
            ),
            (
                "note",
                "refused",
                "The log of node 3 ends at offset 50, epoch 4. Nodes with newer logs refuse it: node 1 (offset 9, ",
            ),
        ],
    ),
    "the leader has just ended": (
        Situation((silent(1), says(2), says(3))),
        [
            ("critical", "no-leader", "These can win: node 2, node 3."),
            ("warning", "leader-not-reached", "Voters 2, 3 follow node 1 in epoch 5, which does not answer here"),
        ],
    ),
    "a leader that has resigned": (
        Situation((says(1, leader=None), says(2), says(3))),
        [
            ("critical", "no-leader", ""),
            ("note", "still-following", "Voters 2, 3 follow node 1, which does not answer as leader"),
        ],
    ),
    "a node that campaigns alone": (
        Situation((silent(1), says(2, epoch=9, leader=None), says(3, leader=None))),
        [
            ("critical", "no-leader", ""),
            ("warning", "other-epoch", "Node 3 is in epoch 5 and knows no leader; the newest epoch is 9 (node 2)"),
        ],
    ),
    "controllers of Kafka without a leader": (
        Situation((kafka(1, None), kafka(2, None))),
        [("critical", "no-leader", "No leader answers, and no node tells who the voters are")],
    ),
    "a controller of Kafka whose leader is gone": (
        Situation((silent(1), kafka(2, 1))),
        [("critical", "no-leader", "No leader answers (node 2 names node 1), and no node tells who the voters are")],
    ),
    "each node was formatted with a list of its own": (
        Situation((listed(1, 1), listed(2, 2), listed(3, 3))),
        [
            (
                "critical",
                "other-lists",
                f"different lists of voters: node 1: {keys_text(1)}; node 2: {keys_text(2)}; node 3: {keys_text(3)}. A "
                "voter is an id with a directory id, so they refuse each other their votes (INVALID_VOTER_KEY). Nobody "
                "has ever been elected, so that nothing was written.",
            ),
        ],
    ),
    "two lists, and a voter that is silent": (
        Situation((listed(1, 1), listed(2, 2), silent(3))),
        [
            ("critical", "other-lists", "Leave all of them as they are until it is known what 3 has: perhaps records."),
        ],
    ),
    "static voters whose files name no voters": (
        Situation((static(1, leader=None), static(2, leader=None), silent(3))),
        [
            (
                "critical",
                "unnamed-voters",
                "Name all voters of before there again, such as `controller.quorum.voters=1@host1:9093,2@host2:9093,"
                "3@host3:9093`, in the file of each, and restart them.",
            ),
        ],
    ),
    "two of Kafka's controllers are down": (
        Situation((registered(2), silent(1), silent(3))),
        [
            (
                "critical",
                "no-majority",
                "two of the voters 1, 2, 3 are needed, and one can be reached. Silent: 1 (connection refused)",
            )
        ],
    ),
    "two of Kafka's controllers have blank disks": (
        Situation((registered(1), bare(2), bare(3))),
        [
            (
                "critical",
                "other-disks",
                "Missing: voter 2 (its node has no metadata) and voter 3 (its node has no metadata): blank or other "
                "disks, which do not vote. Mount those disks again. Leave node 1 as it is",
            )
        ],
    ),
    "a controller of Kafka's that was started without a leader is not blank": (
        Situation((bare(1), attrs.evolve(silent(2), voter_ids=(1, 2, 3)), silent(3))),
        [("critical", "no-majority", "and one can be reached")],
    ),
    "no controller of Kafka's has metadata": (
        Situation((bare(1), bare(2), silent(3))),
        [
            (
                "critical",
                "no-leader",
                "no node tells who the voters are: node 1 and node 2: no leader in epoch 4, and no metadata. No "
                "answer: node 3 (connection refused). A controller has no metadata if its disk is blank, if its file "
                "names no voters, or if it was started since the last leader ended. Ask the voters themselves",
            )
        ],
    ),
    "the files of all of Kafka's controllers name no voters": (
        Situation((bare(1), bare(2), bare(3))),
        [
            (
                "critical",
                "no-leader",
                "ended. If these are all the voters, their files name none any more: put controller.quorum.voters back "
                "in them, as it was before, and restart them. Ask the voters",
            )
        ],
    ),
    "Kafka's controllers that never had a leader have not lost their voters": (
        Situation((attrs.evolve(bare(1), epoch=0), attrs.evolve(bare(2), epoch=0))),
        [("critical", "no-leader", "since the last leader ended. Ask the voters")],
    ),
    "the file of this machine names no voters, and other nodes do not tell their ids": (
        Situation(
            (
                attrs.evolve(bare(1), node_id=1, kraft_version=0, is_controller=True, reported_end=34),
                attrs.evolve(bare(2), node_id=None),
                attrs.evolve(silent(3), node_id=None),
            ),
            here=FoundHere(1, "/1", is_down=False, bootstrap=("host1:9093", "host2:9093")),
        ),
        [
            (
                "critical",
                "unnamed-voters",
                "such as `controller.quorum.voters=1@host1:9093,ID@host2:9093,ID@host3:9093`, in the file of each",
            ),
        ],
    ),
    "nobody answers at the servers in a broker's file": (
        Situation((silent(1), silent(2), silent(10)), here=of_broker("host1:9093", "host2:9093")),
        [
            (
                "critical",
                "no-answer",
                "`controller.quorum.bootstrap.servers` in /10 names host1:9093, host2:9093: if the controllers listen "
                "elsewhere, name them there, and restart node 10.",
            ),
        ],
    ),
    "a broker's file names brokers alone": (
        Situation(
            (attrs.evolve(kafka(11, None), is_broker=True, forwarding_problem="x"), silent(10)),
            here=of_broker("host11:9093"),
        ),
        [("critical", "no-leader", "")],
    ),
    "Kafka's static controllers without a leader": (
        Situation((registered(1, kraft_version=0), registered(2, kraft_version=0), silent(3))),
        [
            (
                "critical",
                "no-leader",
                "kraft.version is 0 on node 1 and node 2, so only `controller.quorum.voters` names the voters",
            )
        ],
    ),
    "a change that is not committed, and no leader": (
        Situation((says(1, leader=None, has_uncommitted_change=True), silent(2), silent(3))),
        [
            ("critical", "no-majority", ""),
            ("warning", "uncommitted-voters", "The voters 1, 2, 3 come from a voter change that is not committed."),
        ],
    ),
}
