"""What is concluded from the claims of a quorum's nodes: one situation a row."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
import pytest

from kraft_trio.protocol.finding import Severity
from kraft_trio.protocol.quorum_findings import DAY_MS, LITTLE_BYTES, contradictions, findings
from kraft_trio.protocol.quorum_situation import Claim, LeaderReport, Situation, VoterReport, survivals
from kraft_trio.protocol.replica_health import Health, ReplicaHealth
from kraft_trio.protocol.types import OffsetAndEpoch

UP = ReplicaHealth(Health.UP)
OFFLINE = ReplicaHealth(Health.OFFLINE, "last fetched 9 s ago")
OLD, NEW = UUID(int=1), UUID(int=2)
LAGGING = ReplicaHealth(Health.LAGGING, "caught up 9 s ago")


def says(node_id: int, epoch: int = 5, leader: int | None = 1, end: tuple[int, int] = (10, 5), **more: Any) -> Claim:
    fields = {"voter_ids": (1, 2, 3), "cluster_id": "c", "log_end": OffsetAndEpoch(*end), **more}
    return Claim(f"host{node_id}:9093", node_id=node_id, epoch=epoch, leader_id=leader, **fields)


def silent(node_id: int) -> Claim:
    return Claim(f"host{node_id}:9093", "connection refused", node_id=node_id)


def refuses_login(node_id: int) -> Claim:
    return Claim(f"host{node_id}:9093", "SASL: x", node_id=node_id, refused_login="User:op")


def fails_tls(node_id: int, problem: str = "TLS handshake failed: certificate has expired") -> Claim:
    return Claim(f"host{node_id}:9093", problem, node_id=node_id)


def kafka(node_id: int, leader: int | None) -> Claim:
    """A controller of Kafka that does not lead tells no more."""
    return Claim(f"host{node_id}:9093", node_id=node_id, cluster_id="c", leader_id=leader)


def led(*health: ReplicaHealth, directory_id: UUID | None = None, **more: Any) -> LeaderReport:
    voters = tuple(VoterReport(node_id, one, directory_id) for node_id, one in enumerate(health, start=1))
    return LeaderReport(leader_id=1, epoch=5, high_watermark=10, voters=voters, **more)


NOW_MS = 1_700_000_000_000


def expires(node_id: int, days: int) -> Claim:
    return says(node_id, certificate_expires_ms=NOW_MS + days * DAY_MS)


ALL = (says(1), says(2), says(3))

SITUATIONS: dict[str, tuple[Situation, list[tuple[str, str, str]]]] = {
    "a healthy quorum": (
        Situation(ALL, led(UP, UP, UP)),
        [("ok", "survival", "survives 1 more failure now: 3 of 3 voters are up, and 2 are needed")],
    ),
    "five voters": (
        Situation((says(1, voter_ids=(1, 2, 3, 4, 5)),), led(UP, UP, UP, UP, UP)),
        [("ok", "survival", "survives 2 more failures")],
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
        [("critical", "two-leaders", "Nodes 1 and 2 are all named as leader of epoch 5"), ("ok", "survival", "")],
    ),
    "nodes of two clusters": (
        Situation((says(1), says(2, cluster_id="d"), says(3)), led(UP, UP, UP)),
        [("critical", "clusters", "node 1 to c, node 2 to d"), ("ok", "survival", "")],
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
    "a majority with expired certificates is not known to be down": (
        Situation((says(1, leader=None), fails_tls(2), fails_tls(3))),
        [("critical", "tls", "Node 2 and node 3 run")],
    ),
    "a voter that refuses the login beside a leader": (
        Situation((says(1), says(2), refuses_login(3)), led(UP, UP, UP)),
        [("warning", "login", "Node 3 runs, but refuses"), ("ok", "survival", "")],
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
}


@pytest.mark.parametrize(("situation", "expected"), SITUATIONS.values(), ids=SITUATIONS)
def test_what_is_concluded(situation: Situation, expected: list[tuple[str, str, str]]) -> None:
    found = findings(situation)
    assert [(finding.severity.value, finding.code) for finding in found] == [row[:2] for row in expected]
    for finding, (_, _, text) in zip(found, expected, strict=True):
        assert text in finding.text


def test_what_can_be_done_comes_as_a_command() -> None:
    [no_majority] = findings(Situation((says(1, leader=None), silent(2))))
    assert no_majority.command == "kraft server start -c FILE"
    no_leader = findings(Situation((says(1, leader=None), says(2, leader=None))))[0]
    assert no_leader.command == "kraft metadata-quorum --bootstrap-controller host1:9093,host2:9093 explain"


def advice(situation: Situation) -> list[tuple[str, str | None]]:
    found = findings(situation)
    return [(finding.text, finding.command) for finding in found if finding.code == "voter-behind"]


def test_voter_is_started_or_replaced_by_commands_that_can_be_copied() -> None:
    [(text, command)] = advice(Situation((says(1), says(2), silent(3)), led(UP, UP, OFFLINE)))
    assert text.endswith(": `kraft metadata-quorum --bootstrap-controller host1:9093,host2:9093 replace -i 3`.")
    assert command == "kraft server start -c FILE"


def test_voter_beside_controllers_of_kafka_is_started_as_one_of_them_or_of_ours() -> None:
    follower = attrs.evolve(kafka(2, 1), reported_end=10)
    both = "bin/kafka-server-start.sh FILE  # or, for a node of kraft-trio: kraft server start -c FILE"
    found = advice(Situation((says(1), follower, silent(3)), led(UP, UP, OFFLINE)))
    assert [command for _, command in found] == [both]
    found = advice(Situation((says(1), follower, silent(3)), led(OFFLINE, UP, OFFLINE)))
    assert found[-1][1] == both
    survival = findings(Situation((follower, silent(3)), led(OFFLINE, UP, OFFLINE)))[0]
    assert (survival.code, survival.command) == ("survival", both)


def test_voter_is_not_replaced_while_nothing_can_be_committed() -> None:
    found = advice(Situation((says(1), silent(2), silent(3)), led(UP, OFFLINE, OFFLINE)))
    assert [text for text, _ in found] == [
        f"Voter {id} is offline: last fetched 9 s ago. Look at the end of its log; start it, or restart it if it hangs."
        for id in (2, 3)
    ]
    critical = findings(Situation((says(1), silent(2), silent(3)), led(UP, OFFLINE, OFFLINE)))[0]
    assert "Start one of the voters 2, 3. Only if their disks are lost for good, recover" in critical.text


@pytest.mark.parametrize(
    ("problem", "cause", "remedy"),
    [
        ("TLS: tlsv13 alert certificate required", "no certificate was shown", "ssl.keystore.location"),
        ("TLS: sslv3 alert certificate expired", "the certificate shown has expired", "Replace that certificate"),
        ("TLS: tlsv1 alert unknown ca", "not trusted there", "the trust store there"),
        ("certificate verify failed: certificate has expired", "certificate there has expired", "Replace the files"),
        (
            "certificate verify failed: Hostname mismatch, certificate is not valid for 'b'.",
            "names other hosts",
            "Ask at a host",
        ),
        ("certificate verify failed: self-signed certificate", "not trusted here", "ssl.truststore.location"),
        ("certificate verify failed: certificate is not yet valid", "is not valid yet", "the clock of this machine"),
        ("TLS: sslv3 alert bad certificate", "refused there", "The log there says why"),
        (
            "certificate verify failed: unsuitable certificate purpose",
            "may not be used for that",
            "extended key usages",
        ),
        ("TLS: sslv3 alert unsupported certificate", "may not be used for that", "extended key usages"),
    ],
)
def test_certificates_are_named_as_the_cause(problem: str, cause: str, remedy: str) -> None:
    [finding] = findings(Situation((fails_tls(1, problem),)))
    assert f"{cause} ({problem}). " in finding.text
    assert remedy in finding.text
    assert finding.command is None


def test_node_that_answers_is_not_to_be_started() -> None:
    [(text, command)] = advice(Situation((says(1), says(2), says(3, epoch=4)), led(UP, UP, OFFLINE)))
    assert text.endswith("9 s ago. Its node runs, but does not fetch from the leader: its log tells why.")
    assert command is None


def test_node_that_answers_tells_why_it_does_not_fetch() -> None:
    refused = says(3, fetch_problem="host1:9093: SASL: wrong password")
    [(text, _)] = advice(Situation((says(1), says(2), refused), led(UP, UP, OFFLINE)))
    assert text.endswith("Its node runs, but does not fetch from the leader: host1:9093: SASL: wrong password.")
    lost = attrs.evolve(refused, leader_id=None)
    [(text, _)] = advice(Situation((says(1), says(2), lost), led(UP, UP, OFFLINE)))
    assert text.endswith("and is reached from there. Its last Fetch failed: host1:9093: SASL: wrong password.")


@pytest.mark.parametrize(("leader", "known"), [(None, "no leader"), (3, "node 3 as leader")])
def test_node_that_answers_here_and_does_not_know_the_leader_is_cut_off(leader: int | None, known: str) -> None:
    [(text, command)] = advice(Situation((says(1), says(2), says(3, leader=leader)), led(UP, UP, OFFLINE)))
    reaches = "see whether it reaches node 1 at host1:9093, and is reached from there."
    assert text.endswith(f"9 s ago. Its node answers here, but knows {known}: {reaches}")
    assert command is None


def test_commands_connect_as_the_operator_did() -> None:
    situation = Situation((says(1), says(2), silent(3)), led(UP, UP, OFFLINE), command_config="my client.properties")
    connecting = "kraft metadata-quorum --bootstrap-controller host1:9093,host2:9093 --command-config"
    assert f"{connecting} 'my client.properties' replace -i 3" in advice(situation)[0][0]
    no_leader = findings(Situation((says(1, leader=None), says(2, leader=None)), command_config="f"))[0]
    assert no_leader.command == f"{connecting} f explain"


@pytest.mark.parametrize(
    "problem",
    [
        "Metadata: the peer closed the connection instead of answering",
        "x: Connection reset by peer",
        "SASL: frame length 1213486160: at most 65536 is allowed",
    ],
)
def test_file_that_does_not_fit_the_listener_is_suspected(problem: str) -> None:
    """A node that closes the connection runs, so that starting it would be of no use."""
    closes = attrs.evolve(silent(1), problem=problem)
    [found] = findings(Situation((closes, silent(2)), command_config="f"))
    assert found.text.endswith(
        "Something runs where the connection is closed: do the port and `security.protocol` in f fit it?"
    )
    [alone] = findings(Situation((closes,)))
    assert alone.text.endswith("tell how to connect (`--command-config`).")


@pytest.mark.parametrize(("problem", "expected"), [(None, ["leader-not-reached"]), ("refused", [])])
def test_last_voter_that_does_not_hear_the_leader_either_elects_nobody(
    problem: str | None, expected: list[str]
) -> None:
    found = findings(Situation((silent(1), says(2, fetch_problem=problem), silent(3))))
    assert [finding.code for finding in found] == ["no-majority", *expected]


def test_what_is_found_in_the_directory_of_a_silent_node_is_told() -> None:
    found = attrs.evolve(silent(3), directory_problem="/d: the disk has 0 KiB left.")
    told = "Node 3 does not answer. Found on this machine: /d: the disk has 0 KiB left."
    for situation in (Situation((says(1), says(2), found), led(UP, UP, OFFLINE)), Situation((found,))):
        assert [one.text for one in findings(situation) if one.code == "directory"] == [told]


def test_change_that_is_not_committed_is_told_of_without_a_leader() -> None:
    new = (1, 2, 3, 4)
    changed = says(1, leader=None, end=(11, 5), voter_ids=new, has_uncommitted_change=True)
    hangs = attrs.evolve(silent(3), problem="no answer within 5000 ms")
    found = findings(Situation((changed, says(2, leader=None), hangs, silent(4))))
    assert [one.code for one in found] == ["no-majority", "uncommitted-voters"]
    assert (
        "Silent: 3 (no answer within 5000 ms), 4 (connection refused). Start one of them, or restart" in found[0].text
    )
    assert found[1].text.startswith("The voters 1, 2, 3, 4 come from a voter change that is not committed.")
    old = says(1, leader=None, has_uncommitted_change=True)
    newer = says(2, leader=None, end=(11, 5), voter_ids=new)
    assert "uncommitted-voters" not in [one.code for one in findings(Situation((old, newer)))]


def test_voter_that_lags_tells_why() -> None:
    refuses = says(3, fetch_problem="records refused: x")
    [(text, _)] = advice(Situation((says(1), says(2), refuses), led(UP, UP, LAGGING)))
    assert text == "Voter 3 is lagging: caught up 9 s ago. It gets no records from the leader: records refused: x."


def test_node_that_is_denied_is_to_be_a_super_user() -> None:
    """A node that passes a question on tells of its own denial, for which DESCRIBE alone would be no remedy."""
    [denied] = findings(Situation((says(1, denial="User:node"),), led(UP, UP, UP)))[:1]
    assert denied.text.endswith("If that is a node's principal, name it in `super.users`.")


@pytest.mark.parametrize(
    ("problem", "remedy"),
    [
        (
            "SASL: SCRAM-SHA-512: illegal_sasl_state; the server has ''",
            "That listener asks for no login: correct",
        ),
        ("SASL: PLAIN: unsupported_sasl_mechanism; the server has 'SCRAM-SHA-512'", "Name a mechanism that it has"),
        ("SASL: sasl_authentication_failed: the server says 'x'", "Check the user and its password"),
    ],
)
def test_password_is_not_blamed_for_a_listener_without_it(problem: str, remedy: str) -> None:
    refused = attrs.evolve(refuses_login(1), problem=problem)
    [login] = findings(Situation((refused,)))
    assert login.text.startswith(f"Node 1 runs, but refuses the login of User:op ({problem}). {remedy}")


@pytest.mark.parametrize(("node_id", "severity"), [(3, Severity.CRITICAL), (4, Severity.WARNING)])
def test_two_processes_with_one_id_are_told_of_once(node_id: int, severity: Severity) -> None:
    claims = (says(1), says(2, shared_id=(node_id, "x")), says(3, shared_id=(node_id, "y")))
    told = findings(Situation(claims, led(UP, UP, UP)))
    [found] = [one for one in told if one.code == "shared-id"]
    assert (found.severity, found) == (severity, told[0])
    assert found.text.startswith(f"Two processes have node id {node_id}: node 3 says that y. Stop the wrong one")


def test_voter_whose_address_leads_to_another_cluster() -> None:
    other = says(3, epoch=0, leader=None, cluster_id="d", fetch_problem="x")
    [(text, command)] = advice(Situation((says(1), says(2), other), led(UP, UP, OFFLINE)))
    assert text.endswith("9 s ago. Another cluster's node answers at its address, host3:9093.")
    assert command is None


def test_the_file_of_the_command_line_is_named_where_none_was_given() -> None:
    [without] = findings(Situation((silent(1),)))
    assert without.text.endswith("If their listeners use TLS or SASL, tell how to connect (`--command-config`).")
    [given] = findings(Situation((silent(1),), command_config="f"))
    assert given.text.endswith("Start those that do not run, or ask others.")


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
