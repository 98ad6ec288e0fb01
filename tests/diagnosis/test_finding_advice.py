"""What findings advise: commands to copy, and which machine, file or login to look at."""

from __future__ import annotations

import attrs
import pytest

from kraft_trio.diagnosis.finding import Severity
from kraft_trio.diagnosis.quorum_findings import findings
from kraft_trio.diagnosis.quorum_situation import Claim, FoundHere, Situation
from kraft_trio.protocol.kafka_cluster import KafkaCluster
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from tests.diagnosis.situations import LAGGING, OFFLINE, OLD, UP, fails_tls, kafka, led, refuses_login, says, silent


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
    blank = (
        "format a blank one (`kraft storage format -t c -c FILE --no-initial-controllers`), start its node, and replace"
    )
    assert text.endswith(
        f"If its disk is lost, {blank} it: `kraft metadata-quorum --bootstrap-controller host1:9093,host2:9093 replace "
        "-i 3`."
    )
    assert command == "kraft server start -c FILE"


OURS = "kraft server start -c FILE"
KAFKAS = "bin/kafka-server-start.sh FILE"
KAFKAS_OR_OURS = f"{KAFKAS}  # or, for a node of kraft-trio: {OURS}"
OURS_OR_KAFKAS = f"{OURS}  # or, for a controller of Apache Kafka: {KAFKAS}"


KEYS = tuple(ReplicaKey(voter_id, OLD) for voter_id in (1, 2, 3))


def found_here(node_id: int, *, is_kafkas: bool | None) -> Claim:
    """A node that does not answer, and whose file and directory are on this machine."""
    return attrs.evolve(silent(node_id), is_kafkas=is_kafkas)


@pytest.mark.parametrize(
    ("claims", "command"),
    [
        ((says(1, leader=None), silent(2), silent(3)), OURS),
        ((attrs.evolve(kafka(1, None), voter_ids=(1, 2, 3)), silent(2), silent(3)), KAFKAS_OR_OURS),
        ((silent(1), says(2, leader=None, is_witness=True), silent(3)), KAFKAS_OR_OURS),
        ((silent(1), says(2, leader=None), says(3, leader=None, is_witness=True)), None),  # nothing is to be started
        ((silent(1), silent(2), silent(3)), OURS_OR_KAFKAS),
        ((found_here(1, is_kafkas=True), silent(2), silent(3)), KAFKAS),
        ((found_here(1, is_kafkas=False), silent(2), silent(3)), OURS),
        ((found_here(1, is_kafkas=None), silent(2), silent(3)), OURS_OR_KAFKAS),
        ((found_here(1, is_kafkas=True), says(2, leader=None, is_witness=True), silent(3)), KAFKAS),
        ((found_here(1, is_kafkas=False), says(2, leader=None, is_witness=True), silent(3)), OURS),
    ],
)
def test_node_without_a_leader_is_started_as_what_it_is(claims: tuple[Claim, ...], command: str | None) -> None:
    commands = {
        one.command for one in findings(Situation(claims)) if one.command and "metadata-quorum" not in one.command
    }
    assert commands == ({command} if command else set())


def registered_as(claim: Claim, *claims: Claim) -> Situation:
    """Led by a controller of Kafka's, whose metadata has controllers 1, 2 and 4 and the witness 3."""
    known = KafkaCluster(controllers=frozenset({1, 2, 4}), witnesses=frozenset({3}))
    return Situation((kafka(1, 1), claim, *claims), led(UP, OFFLINE, OFFLINE), cluster=known)


@pytest.mark.parametrize(
    ("situation", "commands"),
    [
        (registered_as(silent(2), silent(3)), [KAFKAS, OURS]),
        (registered_as(found_here(2, is_kafkas=True), silent(3)), [KAFKAS, OURS]),
        (registered_as(silent(2), found_here(3, is_kafkas=False)), [KAFKAS, OURS]),
        (registered_as(silent(2), attrs.evolve(silent(3), is_witness=True)), [KAFKAS, OURS]),
        (registered_as(attrs.evolve(silent(2), is_witness=True), silent(3)), [OURS, OURS]),  # It was replaced.
        (attrs.evolve(registered_as(silent(2), silent(3)), cluster=None), [KAFKAS_OR_OURS] * 2),
        (
            attrs.evolve(registered_as(silent(2), attrs.evolve(silent(3), is_witness=True)), cluster=None),
            [KAFKAS_OR_OURS, OURS],
        ),
    ],
)
def test_voter_beside_controllers_of_kafka_is_started_as_what_it_registered(
    situation: Situation, commands: list[str]
) -> None:
    assert [command for _, command in advice(situation)] == commands


def test_command_with_a_file_is_for_the_node_of_that_file() -> None:
    """A witness's file is never given to Kafka's script, nor a controller's to ours."""
    claims = (kafka(1, None), silent(2), attrs.evolve(silent(3), is_witness=True))
    of_witness = Situation(claims, here=FoundHere(3, "/witness", is_down=True, voter_keys=KEYS))
    assert {one.command for one in findings(of_witness)} == {"kraft server start -c /witness"}
    claims = (kafka(1, None), found_here(2, is_kafkas=True), silent(3))
    of_kafkas = Situation(claims, here=FoundHere(2, "/kafkas", is_down=True, voter_keys=KEYS))
    assert {one.command for one in findings(of_kafkas)} == {"bin/kafka-server-start.sh /kafkas"}


def test_static_voter_is_not_replaced() -> None:
    """It may refuse to start because its voters were changed, and alone have the records."""
    quorum = led(UP, UP, OFFLINE)
    static = tuple(attrs.evolve(voter, directory_id=NO_DIRECTORY_ID) for voter in quorum.voters)
    [(text, command)] = advice(Situation((says(1), says(2), silent(3)), attrs.evolve(quorum, voters=static)))
    assert text.endswith("Look at the end of its log; start it, or restart it if it hangs.")
    assert command == "kraft server start -c FILE"


def test_voter_beside_controllers_of_kafka_is_started_as_one_of_them_or_of_ours() -> None:
    follower = attrs.evolve(kafka(2, 1), reported_end=10)
    found = advice(Situation((says(1), follower, silent(3)), led(UP, UP, OFFLINE)))
    assert [command for _, command in found] == [KAFKAS_OR_OURS]
    either = "(`bin/kafka-storage.sh format -t c -c FILE --no-initial-controllers`, or for a node of kraft-trio"
    assert either in found[0][0]
    found = advice(Situation((says(1), follower, silent(3)), led(OFFLINE, UP, OFFLINE)))
    assert found[-1][1] == KAFKAS_OR_OURS
    found = advice(Situation((says(1), follower, found_here(3, is_kafkas=True)), led(UP, UP, OFFLINE)))
    assert [command for _, command in found] == [KAFKAS]
    assert "(`bin/kafka-storage.sh format -t c -c FILE --no-initial-controllers`), start its node" in found[0][0]
    survival = findings(Situation((follower, silent(3)), led(OFFLINE, UP, OFFLINE)))[0]
    assert (survival.code, survival.command) == ("survival", KAFKAS_OR_OURS)


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
        (
            "TLS: tlsv1 alert unknown ca",
            "not trusted there",
            "with its intermediate certificates, or add its authority",
        ),
        (
            "certificate verify failed: unable to get local issuer certificate",
            "or comes without its chain",
            "intermediate certificates, add them to the key store there",
        ),
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


def test_who_denies_a_fetch_is_asked_why() -> None:
    denied = says(3, fetch_problem="node 1 answers cluster_authorization_failed")
    [(text, _)] = advice(Situation((says(1), says(2), denied), led(UP, UP, OFFLINE)))
    assert "does not fetch from the leader: node 1 answers cluster_authorization_failed. The line" in text
    assert text.endswith("`request denied` in the log there tells as whom, and why.")


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
        "Something runs where the connection is closed: do the port and `security.protocol` in f fit it? "
        "If it is a node, the line `connection closed` in its log tells why."
    )
    [alone] = findings(Situation((closes,)))
    assert alone.text.endswith("tell how to connect (`--command-config`).")


def test_log_of_a_voter_that_closes_the_connection_is_named() -> None:
    closing = attrs.evolve(silent(3), problem="ApiVersions: the peer closed the connection instead of answering")
    for claim, is_named in ((closing, True), (silent(3), False)):
        found = findings(Situation((says(1), says(2), claim), led(UP, UP, UP)))
        [text] = [finding.text for finding in found if finding.code == "not-reached"]
        assert text.endswith("the line `connection closed` in its log tells why.") == is_named


@pytest.mark.parametrize(("problem", "expected"), [(None, ["leader-not-reached"]), ("refused", [])])
def test_last_voter_that_does_not_hear_the_leader_either_elects_nobody(
    problem: str | None, expected: list[str]
) -> None:
    found = findings(Situation((silent(1), says(2, fetch_problem=problem), silent(3))))
    assert [finding.code for finding in found] == ["no-majority", *expected]
    majority = findings(Situation((silent(1), says(2, fetch_problem=problem), says(3, fetch_problem=problem))))
    assert "leader-not-reached" in [finding.code for finding in majority], "two of them elect another"


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
    assert denied.text.endswith(
        "If that is a node's principal, name it in `super.users`, or allow it CLUSTER_ACTION, too."
    )


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
