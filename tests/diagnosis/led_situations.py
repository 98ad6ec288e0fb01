"""Quorums whose leader answers, and what is concluded."""

from __future__ import annotations

from uuid import UUID

import attrs

from kraft_trio.diagnosis.findings.machines import LITTLE_BYTES
from kraft_trio.diagnosis.quorum_situation import Restored, Situation, VoterReport
from kraft_trio.protocol.types import OffsetAndEpoch
from tests.diagnosis.situations import (
    ALL,
    LAGGING,
    NEW,
    NOW_MS,
    OFFLINE,
    OLD,
    UP,
    expires,
    fails_tls,
    heard,
    led,
    refuses_login,
    says,
    silent,
    static,
)

UNRESOLVED = "cannot connect: 'host3' is not resolved: Name or service not known"

SITUATIONS: dict[str, tuple[Situation, list[tuple[str, str, str]]]] = {
    "a healthy quorum": (
        Situation(ALL, led(UP, UP, UP)),
        [("ok", "survival", "survives 1 more failure now: 3 of 3 voters are up, and 2 are needed")],
    ),
    "an announced address where nobody listens": (
        Situation((says(1), says(2, dead_address="gone:9093"), says(3)), led(UP, UP, UP)),
        [
            (
                "warning",
                "dead-address",
                "Nobody listens at gone:9093, which node 2 announces: correct `advertised.listeners` in its file",
            ),
            ("ok", "survival", "survives 1 more failure"),
        ],
    ),
    "five voters": (
        Situation((says(1, voter_ids=(1, 2, 3, 4, 5)),), led(UP, UP, UP, UP, UP)),
        [("ok", "survival", "survives 2 more failures")],
    ),
    "a record that no state machine can decode": (
        Situation(tuple(says(id, state_machine_problem="offset 4 is bad") for id in (1, 2, 3)), led(UP, UP, UP)),
        [
            (
                "critical",
                "stopped-state-machine",
                "The state machine has stopped on node 1, node 2, node 3, which go on replicating and voting: offset 4 "
                "is bad. If a newer version",
            )
        ],
    ),
    "a record that one node cannot decode": (
        Situation((says(1, state_machine_problem="offset 4 is bad"), says(2), says(3)), led(UP, UP, UP)),
        [
            (
                "critical",
                "stopped-state-machine",
                "The state machine has stopped on node 1, which goes on replicating and voting: offset 4 is bad.",
            )
        ],
    ),
    "one voter": (
        Situation((says(1, voter_ids=(1,)),), led(UP)),
        [("note", "survival", "survives no more failure now: 1 of 1 voter is up, and 1 is needed")],
    ),
    "a voter is down": (
        Situation((says(1), says(2), silent(3)), led(UP, UP, OFFLINE)),
        [
            ("warning", "survival", "survives no more failure now: 2 of 3"),
            (
                "warning",
                "voter-behind",
                "Voter 3 is offline: last fetched 9 s ago. Look at the end of its log; start it, or restart it if it "
                "hangs. If its disk is lost,",
            ),
        ],
    ),
    "a voter lags": (
        Situation(ALL, led(UP, UP, LAGGING)),
        [("warning", "survival", "no more failure"), ("warning", "voter-behind", "Voter 3 is lagging")],
    ),
    "a leader that has lost its majority": (
        Situation((says(1), silent(2), silent(3)), led(UP, OFFLINE, OFFLINE)),
        [
            ("critical", "survival", "Nothing can be committed: 1 of 3 voters are up, and 2 are needed"),
            ("warning", "voter-behind", "Voter 2"),
            ("warning", "voter-behind", "Voter 3"),
        ],
    ),
    "a voter that only the leader reaches": (
        Situation((says(1), says(2), silent(3)), led(UP, UP, UP)),
        [
            ("note", "not-reached", "Node 3 does not answer here (connection refused), but the leader hears it"),
            ("ok", "survival", "1 more failure"),
        ],
    ),
    "a voter that has just ended": (
        Situation((says(1), says(2), silent(3)), heard(led(UP, UP, UP), 3, silent_ms=1800)),
        [
            ("warning", "survival", "no more failure now: 2 of 3 voters are up"),
            (
                "warning",
                "not-reached",
                "Node 3 does not answer here (connection refused), and its last Fetch was 1.8",
            ),
        ],
    ),
    "two voters that have just ended": (
        Situation((says(1), silent(2), silent(3)), heard(heard(led(UP, UP, UP), 2, silent_ms=1001), 3, silent_ms=1800)),
        [
            ("critical", "survival", "Nothing can be committed: 1 of 3 voters are up"),
            ("warning", "not-reached", "Node 2 does not answer here"),
            ("warning", "not-reached", "Node 3 does not answer here"),
        ],
    ),
    "a voter behind a firewall that has fetched lately": (
        Situation((says(1), says(2), silent(3)), heard(led(UP, UP, UP), 3, silent_ms=1000)),
        [("note", "not-reached", "but the leader hears it"), ("ok", "survival", "1 more failure")],
    ),
    "nothing is committed yet": (
        Situation(ALL, attrs.evolve(led(UP, UP, UP), high_watermark=-1)),
        [("warning", "no-commit", "committed in epoch 5"), ("ok", "survival", "")],
    ),
    "a voter change is pending": (
        Situation(
            tuple(attrs.evolve(claim, voter_ids=(1, 2, 3, 4)) for claim in ALL),
            led(UP, UP, OFFLINE, OFFLINE, committed_voter_ids=(1, 2, 3)),
        ),
        [
            ("critical", "survival", "2 of 4 voters are up, and 3 are needed"),
            ("warning", "voter-behind", "Voter 3"),
            ("warning", "voter-behind", "Voter 4"),
            ("warning", "pending-change", "not committed: 1, 2, 3, 4 after 1, 2, 3"),
            ("warning", "survival-before", "If the change is undone, the quorum survives no more failure now: 2 of 3"),
        ],
    ),
    "a reassignment": (
        Situation(ALL, led(UP, UP, UP, target_voter_ids=(1, 2, 4), reassignment_status="adding 4")),
        [("note", "reassignment", "reassigned to 1, 2, 4: adding 4"), ("ok", "survival", "")],
    ),
    "a node in another epoch": (
        Situation((says(1), says(2), says(3, epoch=4, leader=2)), led(UP, UP, OFFLINE)),
        [
            (
                "warning",
                "other-epoch",
                "names node 2 as leader; the newest epoch is 5 (node 1, node 2)",
            ),
            ("warning", "survival", ""),
            ("warning", "voter-behind", "Voter 3"),
        ],
    ),
    "two leaders of one epoch": (
        Situation((says(1), says(2, leader=2), says(3)), led(UP, UP, UP)),
        [("critical", "two-leaders", "Nodes 1 and 2 are all named as leader of epoch 5")],
    ),
    "nodes of two clusters": (
        Situation((says(1), says(2, cluster_id="d"), says(3)), led(UP, UP, UP)),
        [("critical", "clusters", "node 1 to c, node 2 to d")],
    ),
    "a voter whose certificate has expired beside a leader that still hears it": (
        Situation((says(1), says(2), fails_tls(3)), led(UP, UP, UP)),
        [("warning", "tls", "Node 3 runs, but TLS fails"), ("ok", "survival", "")],
    ),
    "a voter whose certificate has expired is not to be started": (
        Situation((says(1), says(2), fails_tls(3)), led(UP, UP, OFFLINE)),
        [
            ("warning", "tls", "Node 3 runs, but TLS fails: the certificate there has expired"),
            ("warning", "survival", "no more failure"),
            ("warning", "voter-behind", "9 s ago. Its node runs, but refuses the connection, or is refused."),
        ],
    ),
    "a voter that refuses the login beside a leader": (
        Situation((says(1), says(2), refuses_login(3)), led(UP, UP, UP)),
        [("warning", "login", "Node 3 runs, but refuses"), ("ok", "survival", "")],
    ),
    "a follower has dropped committed records": (
        Situation(
            (says(1), attrs.evolve(says(2), lost_records="offsets 8 to 57, which"), says(3)),
            led(UP, UP, UP),
        ),
        [
            (
                "critical",
                "lost-records",
                "Node 2 says that committed records are lost: offsets 8 to 57, which. A majority of",
            )
        ],
    ),
    "a voter with a blank disk": (
        Situation((says(1), says(2, directory_id=NEW), says(3)), led(UP, OFFLINE, UP, directory_id=OLD)),
        [
            ("warning", "other-directory", "has a blank or another disk, so it does not vote"),
            ("warning", "survival", "no more failure"),
            (
                "warning",
                "voter-behind",
                "Voter 2 is offline: last fetched 9 s ago. Its node runs with another directory id.",
            ),
        ],
    ),
    "a voter with its own disk, and one whose directory id is unknown": (
        Situation(
            (says(1, directory_id=OLD), says(2, directory_id=UUID(int=0)), says(3)), led(UP, UP, UP, directory_id=OLD)
        ),
        [("ok", "survival", "survives 1 more")],
    ),
    "a node that does not know of its removal": (
        Situation((says(1), says(2), says(3), says(4, voter_ids=(1, 2, 3, 4))), led(UP, UP, UP)),
        [
            ("warning", "removed", "Node 4 was removed, and does not know it: the voters are 1, 2, 3"),
            ("note", "observers", "Not voters: 4"),
            ("ok", "survival", ""),
        ],
    ),
    "a disk that is nearly full": (
        Situation((says(1, free_bytes=LITTLE_BYTES), says(2, free_bytes=10 * 1024**2), says(3)), led(UP, UP, UP)),
        [("warning", "little-room", "The disk of node 2 has 10 MiB left"), ("ok", "survival", "")],
    ),
    "a node that ended when its disk was full": (
        Situation((says(1), attrs.evolve(silent(2), free_bytes=0), says(3)), led(UP, OFFLINE, UP)),
        [
            ("warning", "little-room", "The disk of node 2 had 0 KiB left when it last answered"),
            ("warning", "survival", "no more failure"),
            ("warning", "voter-behind", "9 s ago. Its disk was nearly full: make room, and start it."),
        ],
    ),
    "the fullest disk is named first": (
        Situation(
            (says(1, free_bytes=90 * 1024**2), says(2), attrs.evolve(silent(3), free_bytes=9000)), led(UP, UP, UP)
        ),
        [
            ("warning", "little-room", "The disk of node 3 had 8 KiB left when it last answered"),
            ("warning", "little-room", "The disk of node 1 has 90 MiB left"),
            ("note", "not-reached", ""),
            ("ok", "survival", ""),
        ],
    ),
    "what an undone change would leave is no incident yet": (
        Situation(ALL, led(UP, OFFLINE, UP, UP, committed_voter_ids=(1, 2))),
        [
            ("warning", "survival", ""),
            ("warning", "voter-behind", ""),
            ("warning", "pending-change", ""),
            ("warning", "survival-before", "If the change is undone, nothing can be committed: 1 of 2 voters are up"),
        ],
    ),
    "certificates that have expired, or soon do": (
        Situation((expires(1, 9), expires(2, -1), expires(3, 1)), led(UP, UP, UP), now_ms=NOW_MS),
        [
            ("warning", "certificate", "A certificate of node 2 has expired: connections fail. Replace its files"),
            ("warning", "certificate", "A certificate of node 3 expires in 1 day."),
            ("note", "certificate", "A certificate of node 1 expires in 9 days."),
            ("ok", "survival", ""),
        ],
    ),
    "certificates that last, and those of a recorded run": (
        Situation((expires(1, 30), says(2)), led(UP, UP, UP), now_ms=NOW_MS),
        [("ok", "survival", "")],
    ),
    "static voters that differ between the files": (
        Situation((static(1, 1, 2, 3), static(2, 1, 2, 3, 4), static(3, 1, 2, 3)), led(UP, UP, UP)),
        [
            (
                "warning",
                "other-static-voters",
                "node 1 and node 3: 1, 2, 3; node 2: 1, 2, 3, 4. Any two majorities of them share a voter.",
            ),
            ("ok", "survival", ""),
        ],
    ),
    "a second quorum by a static file": (
        Situation((static(1, 1, 2, 3), static(2, 1, 2, 3), static(3, 3)), led(UP, UP, UP)),
        [("critical", "other-static-voters", "1, 2 and 3 can elect two leaders")],
    ),
    "two leaders by static files that differ": (
        Situation((static(1, 1, 2, 3), static(2, 1, 2, 3), static(3, 3, leader=3)), led(UP, UP, UP)),
        [
            ("critical", "two-leaders", "because the files name different static voters: these are two quorums."),
            ("critical", "other-static-voters", "1, 2 and 3 can elect two leaders"),
        ],
    ),
    "a static voter whose file names no voters": (
        Situation((static(1, 1, 2, 3), static(2), static(3, 1, 2, 3)), led(UP, UP, UP)),
        [
            ("warning", "unnamed-voters", "Node 2 knows no voters: kraft.version is 0, so only"),
            ("ok", "survival", ""),
        ],
    ),
    "records on this machine that the leader never had": (
        Situation(
            (says(1), says(2), attrs.evolve(silent(3), log_end=OffsetAndEpoch(9, 5))),
            attrs.evolve(led(UP, UP), voters=(*led(UP, UP).voters, VoterReport(3, OFFLINE, has_fetched=False))),
        ),
        [
            ("critical", "newer-log", "Node 3 is down, and its log on this machine ends at offset 9 of epoch 5"),
            ("warning", "survival", ""),
            ("warning", "voter-behind", "Do not start it."),
        ],
    ),
    "a static voter that this leader never heard": (
        Situation(
            (says(1), says(2), silent(3)),
            attrs.evolve(led(UP, UP), voters=(*led(UP, UP).voters, VoterReport(3, OFFLINE, has_fetched=False))),
        ),
        [("warning", "survival", ""), ("warning", "voter-behind", "before you start it, let `explain` look")],
    ),
    "a full store": (
        Situation((says(1, store_problem="alarm NOSPACE"), says(2), says(3)), led(UP, UP, UP)),
        [("critical", "store-full", "The key-value store takes no more keys, says node 1: alarm NOSPACE.")],
    ),
    "a name that is not resolved here": (
        Situation((says(1), says(2), attrs.evolve(silent(3), problem=UNRESOLVED)), led(UP, UP, UP)),
        [
            ("warning", "unresolved-name", "The name host3 is not resolved on this machine."),
            ("note", "not-reached", ""),
            ("ok", "survival", ""),
        ],
    ),
    "a name that a node does not resolve": (
        Situation((says(1), says(2), says(3, fetch_problem=f"host1:9093: {UNRESOLVED}")), led(UP, UP, UP)),
        [("warning", "unresolved-name", "Node 3 does not resolve a name that it needs"), ("ok", "survival", "")],
    ),
    "a wrong clock": (
        Situation(
            (says(1, clock_offset_ms=7), says(2, clock_offset_ms=3_700_000), says(3, clock_offset_ms=0)),
            led(UP, UP, UP),
            clock_offset_ms=9000,
        ),
        [("warning", "clock", "The clock of node 2 is 62 minutes ahead of the others."), ("ok", "survival", "")],
    ),
    "two clocks alone": (
        Situation((says(1, clock_offset_ms=-400_000_000), says(2), says(3)), led(UP, UP, UP), clock_offset_ms=0),
        [("warning", "clock", "The clocks of node 1 and this machine are 5 days apart."), ("ok", "survival", "")],
    ),
    "two processes have a voter's id": (
        Situation((says(1, shared_id=(2, "x")), says(2), says(3)), led(UP, UP, UP)),
        [("critical", "shared-id", "Two processes have node id 2: node 1 says that x.")],
    ),
    "two processes have an observer's id": (
        Situation((says(1, shared_id=(9, "x")), says(2), says(3)), led(UP, UP, UP)),
        [("warning", "shared-id", "Two processes have node id 9"), ("ok", "survival", "")],
    ),
    "an old copy of a directory runs": (
        Situation((says(1, restored=(Restored(2, 9, 4, has_caught_up=False),)), says(2), says(3)), led(UP, UP, UP)),
        [("critical", "restored-voter", "It counts as blank until it has caught up.")],
    ),
    "an old copy of a directory has caught up": (
        Situation((says(1, restored=(Restored(2, 9, 4, has_caught_up=True),)), says(2), says(3)), led(UP, UP, UP)),
        [("warning", "restored-voter", "It has caught up, and counts again."), ("ok", "survival", "")],
    ),
    "the leader denies a node what replicas ask": (
        Situation((says(1), says(2, denied_as="User:n"), says(3)), led(UP, UP, UP)),
        [("warning", "node-denied", "The leader denies node 2 CLUSTER_ACTION as User:n"), ("ok", "survival", "")],
    ),
    "one node denies DESCRIBE beside a leader": (
        Situation((says(1), says(2, denial="User:a"), says(3)), led(UP, UP, UP)),
        [("warning", "denied", "Node 2 runs, but denies DESCRIBE to User:a."), ("ok", "survival", "")],
    ),
    "the directory of a silent node was looked at": (
        Situation((says(1), says(2), attrs.evolve(silent(3), directory_problem="/d: x.")), led(UP, UP, UP)),
        [
            ("warning", "directory", "Node 3 does not answer. Found on this machine: /d: x."),
            ("note", "not-reached", ""),
            ("ok", "survival", ""),
        ],
    ),
    "a change to a set that survives as much": (
        Situation(ALL, led(UP, UP, UP, committed_voter_ids=(1, 2, 3))),
        [
            ("warning", "pending-change", ""),
            ("ok", "survival", ""),
            ("ok", "survival-before", "If the change is undone, the quorum survives 1 more failure now"),
        ],
    ),
    "a change from two voters to three": (
        Situation(ALL, led(UP, UP, UP, committed_voter_ids=(1, 2))),
        [
            ("warning", "pending-change", ""),
            ("note", "survival-before", "If the change is undone, the quorum survives no more failure now"),
            ("ok", "survival", ""),
        ],
    ),
}
