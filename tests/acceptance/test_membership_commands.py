"""The commands that change the voters, with real processes: interrupted, watched by other tools, after a loss."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import kafka
import kafka.errors
import pytest

from harness.command import COMMAND_SECONDS, KRAFT, kraft
from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import Quorum, produce_batch, random_uuid
from harness.waiting import wait_until
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.wire.error_codes import ErrorCode
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.readers import read_with_confluent, read_with_kafka_python

PIPE_BYTES = 4096
"""The least that a pipe can be made to hold."""


def fields_of(output: str) -> dict[str, str]:
    lines = [line.partition(":") for line in output.splitlines()]
    return {label: text.strip() for label, _, text in lines}


def contents(directory: Path) -> dict[str, bytes | None]:
    """Of every file below it; None for a directory."""
    return {str(path): None if path.is_dir() else path.read_bytes() for path in directory.rglob("*")}


def voters(quorum: Quorum, node: NodeProcess) -> list[int]:
    completed = kraft("metadata-quorum", "--bootstrap-controller", str(node.endpoint), "describe", "--status", "--json")
    assert completed.returncode == 0, completed.stderr
    return [voter["id"] for voter in json.loads(completed.stdout)["currentVoters"]]


def described_by(client: kafka.KafkaAdminClient) -> dict[str, Any] | None:
    """What the node says that the client chooses, a different one each time; None if that node is down."""
    try:
        answer: dict[str, Any] = client.describe_metadata_quorum()
    except kafka.errors.KafkaConnectionError:
        return None
    return answer


def join_blank(quorum: Quorum, node: NodeProcess) -> None:
    """Format the node again so that it can join, and start it."""
    shutil.rmtree(node.directory, ignore_errors=True)
    arguments = ["-t", quorum.cluster_id, "-c", str(node.properties), "--no-initial-controllers"]
    assert kraft("storage", "format", *arguments).returncode == 0
    node.start()
    node.wait_until_listening()


def others_of(quorum: Quorum, node: NodeProcess) -> list[NodeProcess]:
    return [quorum.nodes[id] for id in quorum.voter_ids if id != node.id]


def follower_that_is_behind(quorum: Quorum) -> NodeProcess:
    """Who has none of what is committed after its end."""
    leader = quorum.leader()
    survivor = others_of(quorum, leader)[0]
    survivor.kill()
    quorum.produce(["lost 1", "lost 2"])
    return survivor


def leader_that_is_ahead(quorum: Quorum) -> NodeProcess:
    """Who has a record that never committed."""
    leader = quorum.leader()
    for other in others_of(quorum, leader):
        other.pause()
    answer = produce_batch(leader, encode_batch([NewRecord(b"never committed")], timestamp_ms=0), timeout_ms=500)
    assert answer.error is ErrorCode.request_timed_out
    return leader


@pytest.mark.rotating(5)
@pytest.mark.parametrize(
    ("lose_the_majority", "further"), [(follower_that_is_behind, []), (leader_that_is_ahead, ["never committed"])]
)
def test_one_replica_of_three_continues_with_what_it_said(
    make_quorum: MakeQuorum, lose_the_majority: Any, further: list[str]
) -> None:
    quorum = make_quorum(voters=3, is_steady=True)
    quorum.start()
    quorum.produce(["kept 1", "kept 2"])
    quorum.wait_until_caught_up()
    survivor: NodeProcess = lose_the_majority(quorum)
    quorum.kill_all()
    for lost in others_of(quorum, survivor):
        shutil.rmtree(lost.directory)
    command = ["storage", "recover", "-c", str(survivor.properties), "--unsafe-only-voter"]

    # Until the right cluster is named nothing is changed.
    before = contents(survivor.directory)
    for confirmation, complaint in (
        ([], f"nothing was changed; --cluster-id {quorum.cluster_id} confirms that you accept what may be lost"),
        (["--cluster-id", other := random_uuid()], f"--cluster-id {other}: the directory belongs to cluster"),
    ):
        completed = kraft(*command, *confirmation)
        assert (completed.returncode, complaint in completed.stderr) == (1, True), completed.stderr
        assert contents(survivor.directory) == before

    completed = kraft(*command, "--cluster-id", quorum.cluster_id)
    assert completed.returncode == 0, completed.stderr
    said = fields_of(completed.stdout)
    end_offset = int(said["LogEnd"].split()[1])
    assert said["MayBeLost"].startswith(f"offsets {end_offset} and above")
    assert said["MayBeMadeCommitted"].startswith(f"offsets 0 to {end_offset - 1}:")

    survivor.start()
    survivor.wait_until_listening()
    quorum.produce(["new"])
    assert voters(quorum, survivor) == [survivor.id]
    records = read_with_confluent(str(survivor.endpoint))
    assert [value for offset, value in records if offset < end_offset] == ["kept 1", "kept 2", *further]
    assert [value for offset, value in records if offset >= end_offset] == ["new"]
    assert read_with_kafka_python(str(survivor.endpoint)) == records

    # And it grows again.
    lost = others_of(quorum, survivor)[0]
    join_blank(quorum, lost)
    completed = kraft("metadata-quorum", "add-controller", "-c", str(lost.properties))
    assert completed.returncode == 0, completed.stderr
    assert voters(quorum, survivor) == sorted([survivor.id, lost.id])


@pytest.mark.rotating(5)
def test_a_change_that_is_not_committed_upsets_no_other_client(make_quorum: MakeQuorum) -> None:
    """The committed voters are in a tagged field that Kafka does not have."""
    quorum = make_quorum(voters=3, observers=1, is_steady=True)
    quorum.start()
    quorum.wait_until_caught_up()
    leader = quorum.leader()
    for other in others_of(quorum, leader):
        other.kill()
    endpoint = str(leader.endpoint)
    add = ["metadata-quorum", "--bootstrap-controller", endpoint, "add-controller", "-c"]
    with subprocess.Popen([KRAFT, *add, str(quorum.nodes[4].properties)], stdout=subprocess.PIPE) as adding:

        def is_uncommitted() -> bool:
            answer = quorum.describe(leader)
            return answer is not None and len(answer.committed_voters) == 3

        wait_until("the change is appended", is_uncommitted)

        kafka_python = kafka.KafkaAdminClient(bootstrap_servers=endpoint)
        [topic] = wait_until("kafka-python asks a node that runs", lambda: described_by(kafka_python))["topics"]
        kafka_python.close()
        [partition] = topic["partitions"]
        assert partition["error"] is None
        assert sorted(voter["replica_id"] for voter in partition["current_voters"]) == [1, 2, 3, 4]
        librdkafka = confluent_kafka.admin.AdminClient({"bootstrap.servers": endpoint})
        assert librdkafka.describe_cluster().result(COMMAND_SECONDS).cluster_id == quorum.cluster_id

        described = kraft("metadata-quorum", "--bootstrap-controller", endpoint, "describe", "--status")
        said = fields_of(described.stdout)
        assert [voter["id"] for voter in json.loads(said["CurrentVoters"])] == [1, 2, 3, 4]
        assert [voter["id"] for voter in json.loads(said["CommittedVoters"])] == [1, 2, 3]
        assert said["UncommittedVoterChange"].startswith("add 4-")
        wait_until("the change is still uncommitted", is_uncommitted)

        for other in others_of(quorum, leader):
            other.start()
        assert adding.wait(COMMAND_SECONDS) == 0
    said = fields_of(kraft("metadata-quorum", "--bootstrap-controller", endpoint, "describe", "--status").stdout)
    assert "CommittedVoters" not in said


@pytest.mark.rotating(5)
def test_a_replacement_that_was_interrupted_goes_on_where_it_was(make_quorum: MakeQuorum) -> None:
    """With --listeners, the command makes both changes itself."""
    quorum = make_quorum(voters=3, is_steady=True)
    quorum.start()
    quorum.wait_until_caught_up()
    leader = quorum.leader()
    replaced = others_of(quorum, leader)[0]
    replaced.kill()
    join_blank(quorum, replaced)
    beginning = (
        f"metadata-quorum --bootstrap-controller {leader.endpoint} replace -i {replaced.id} "
        f"--listeners CONTROLLER://{replaced.endpoint}"
    )
    how_to_go_on = f"Replacing controller {replaced.id}; to resume after an interruption:\n  kraft {beginning}\n"
    # There is no room in the pipe for what is said next, of the removal: there the command waits for its reader.
    reading, writing = os.pipe()
    junk = b"." * (fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES) - len(how_to_go_on))
    os.write(writing, junk)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [KRAFT, *beginning.split()], env=environment, stdout=writing, stderr=subprocess.PIPE, text=True
    ) as replacing:
        os.close(writing)
        others = [id for id in quorum.voter_ids if id != replaced.id]
        wait_until("the old incarnation is removed", lambda: voters(quorum, leader) == others)
        replacing.send_signal(signal.SIGINT)
        with open(reading, "rb") as output:
            said = output.read().removeprefix(junk).decode()
        assert replacing.stderr is not None
        assert replacing.stderr.read().endswith("kraft: error: interrupted\n")
        assert replacing.wait(COMMAND_SECONDS) == 130
    assert voters(quorum, leader) == others

    assert said.startswith(how_to_go_on)
    program, *arguments = shlex.split(said.splitlines()[1])
    assert program == "kraft"
    completed = kraft(*arguments)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.startswith(f"Added controller {replaced.id} with directory id ")
    assert voters(quorum, leader) == [1, 2, 3]
    quorum.produce(["value"])
    wait_until("the logs are equal", lambda: len({node.log_bytes() for node in quorum.nodes.values()}) == 1)


def test_reassignment_to_other_voters_is_followed(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(voters=3, observers=1, is_steady=True)
    quorum.start()
    quorum.wait_until_caught_up()
    reassign = ["metadata-quorum", "--bootstrap-controller", quorum.bootstrap_servers, "reassign"]
    completed = kraft(*reassign, "--to", "1,2,4", "--wait")
    assert completed.returncode == 0, completed.stderr
    assert "Step1:                  add 4-" in completed.stdout
    assert completed.stdout.splitlines()[-1].startswith("The voters are 1-")
    assert voters(quorum, quorum.leader()) == [1, 2, 4]
    # Again, there is nothing left to do or to cancel.
    assert kraft(*reassign, "--to", "1,2,4", "--wait").returncode == 0
    assert kraft(*reassign, "--cancel").stdout == "Nothing to do: there is no reassignment to cancel\n"


@pytest.mark.rotating(5)
def test_a_target_that_cannot_be_reached_is_cancelled(make_quorum: MakeQuorum) -> None:
    """Node 4 fetches, but tells others an address where nobody listens."""
    # After that time, the leader gives up its attempt to reach node 4, and tells why.
    quorum = make_quorum(voters=3, observers=1, controller_quorum_fetch_timeout_ms="6000")
    unreachable = quorum.nodes[4]
    [unused] = free_ports(1)
    with unreachable.properties.open("a") as file:
        file.write(f"advertised.listeners=CONTROLLER://127.0.0.1:{unused}\n")
    quorum.start()
    quorum.wait_until_caught_up()
    endpoint = str(quorum.leader().endpoint)
    reassign = ["metadata-quorum", "--bootstrap-controller", endpoint, "reassign"]
    completed = kraft(*reassign, "--to", "1,2,4")
    assert completed.returncode == 0, completed.stderr
    assert f"  kraft {' '.join(reassign)} --to 1,2,4 --wait\n" in completed.stdout

    def status() -> dict[str, str]:
        return fields_of(kraft("metadata-quorum", "--bootstrap-controller", endpoint, "describe", "--status").stdout)

    wait_until("the leader says what it waits for", lambda: "waiting for 4-" in status().get("ReassignmentStatus", ""))
    assert [voter["id"] for voter in json.loads(status()["TargetVoters"])] == [1, 2, 4]
    removal = kraft("metadata-quorum", "--bootstrap-controller", endpoint, "remove-controller", "-i", "3")
    assert "REASSIGNMENT_IN_PROGRESS" in removal.stderr
    cancelled = kraft(*reassign, "--cancel")
    assert cancelled.stdout.startswith("Cancelled the reassignment: the voters are 1-"), cancelled.stderr
    assert "TargetVoters" not in status()
    assert voters(quorum, quorum.leader()) == [1, 2, 3]


def test_the_leadership_is_transferred_and_appends_go_on(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(voters=3, is_steady=True)
    quorum.start()
    leader = quorum.leader()
    follower, successor = others_of(quorum, leader)
    quorum.produce(["before"])
    command = ["metadata-quorum", "--bootstrap-controller", str(follower.endpoint), "transfer-leadership"]
    done = kraft(*command, "--to", str(successor.id))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Node {successor.id} leads epoch ")
    assert quorum.leader() is successor
    again = kraft(*command, "--to", str(successor.id))
    assert (again.returncode, again.stdout.split(":")[0]) == (0, "Nothing to do")
    refused = kraft(*command, "--to", "9")
    assert refused.returncode == 1
    assert "VOTER_NOT_FOUND: node 9 is no voter" in refused.stderr
    quorum.produce(["after"])
