"""Apache Kafka's own command-line tools, its Java admin client within, describe a quorum and change its voters."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from harness.command import kraft
from harness.quorum import Quorum
from tests.acceptance.client_listeners import add_client_listeners
from tests.interop.kafka_tools import tool


@pytest.fixture(scope="module")
def quorum(make_module_quorum: Any) -> Quorum:
    """Three voters, and an observer that may become one."""
    made: Quorum = make_module_quorum(3, 1, is_steady=True)
    made.start()
    made.produce(["one", "two"])
    made.wait_until_caught_up()
    return made


def metadata_quorum(quorum: Quorum, asked: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return tool("MetadataQuorumCommand", "--bootstrap-controller", str(quorum.nodes[asked].endpoint), *arguments)


def directory_id(quorum: Quorum, node_id: int) -> str:
    lines = (quorum.nodes[node_id].directory / "meta.properties").read_text().splitlines()
    [found] = [line.partition("=")[2] for line in lines if line.startswith("directory.id=")]
    return found


def status(quorum: Quorum, asked: int) -> dict[str, str]:
    completed = metadata_quorum(quorum, asked, "describe", "--status")
    assert completed.returncode == 0, completed.stderr
    return {name: text.strip() for name, _, text in (line.partition(":") for line in completed.stdout.splitlines())}


def voters(quorum: Quorum, asked: int) -> dict[int, tuple[str, list[str]]]:
    described = json.loads(status(quorum, asked)["CurrentVoters"])
    return {voter["id"]: (voter["directoryId"], voter["endpoints"]) for voter in described}


def expected_replicas(quorum: Quorum, *node_ids: int) -> dict[int, tuple[str, list[str]]]:
    return {id: (directory_id(quorum, id), [f"CONTROLLER://{quorum.nodes[id].endpoint}"]) for id in node_ids}


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_any_node_is_asked_and_the_quorum_described(quorum: Quorum, asked: int) -> None:
    leader, expected = quorum.described_by_leader()
    found = status(quorum, asked)
    assert found["ClusterId"] == quorum.cluster_id
    assert (found["LeaderId"], found["LeaderEpoch"]) == (str(leader.id), str(expected.leader_epoch))
    assert voters(quorum, asked) == expected_replicas(quorum, 1, 2, 3)
    [observer] = json.loads(found["CurrentObservers"])
    assert {observer["id"]: (observer["directoryId"], observer["endpoints"])} == expected_replicas(quorum, 4)


@pytest.mark.parametrize("how", ["--status", "--replication", "--replication --human-readable"])
def test_both_tools_print_the_same(quorum: Quorum, how: str) -> None:
    """But for the widths of columns, ages, and the order of replicas."""
    arguments = ["describe", *how.split()]
    kafkas = metadata_quorum(quorum, 1, *arguments)
    ours = kraft("metadata-quorum", "--bootstrap-controller", str(quorum.nodes[1].endpoint), *arguments)
    assert (kafkas.returncode, ours.returncode) == (0, 0), kafkas.stderr + ours.stderr

    def told(text: str) -> list[list[str]]:
        plain = re.sub(r"\d+ ms ago", "N ms ago", re.sub(r"\b1[0-9]{12}\b", "T", text))
        plain = re.sub(r"(MaxFollowerLagTimeMs: +)\d+", r"\1N", plain)
        lines = [[cell.strip() for cell in re.split(r"\t|  +", line) if cell.strip()] for line in plain.splitlines()]
        if how == "--status":
            replicas = [line for line in lines if line[0] in ("CurrentVoters:", "CurrentObservers:")]
            for line in replicas:
                line[1:] = [json.dumps(sorted(json.loads(line[1]), key=lambda replica: replica["id"]))]
        return sorted(lines)

    assert told(ours.stdout) == told(kafkas.stdout)


def test_voters_are_added_and_removed_the_leader_too(quorum: Quorum) -> None:
    adding = ["--command-config", str(quorum.nodes[4].properties), "add-controller"]
    added = metadata_quorum(quorum, 1, *adding)
    assert added.stdout.startswith(f"Added controller 4 with directory id {directory_id(quorum, 4)}"), added.stderr
    assert voters(quorum, 2) == expected_replicas(quorum, 1, 2, 3, 4)
    again = metadata_quorum(quorum, 3, *adding)
    assert "DuplicateVoterException" in again.stdout + again.stderr

    leader = quorum.leader().id
    rest = [id for id in (1, 2, 3, 4) if id != leader]
    removing = ["remove-controller", "--controller-id", str(leader), "--controller-directory-id"]
    refused = metadata_quorum(quorum, rest[0], *removing, directory_id(quorum, rest[0]))
    assert "VoterNotFoundException" in refused.stdout + refused.stderr
    removed = metadata_quorum(quorum, rest[0], *removing, directory_id(quorum, leader))
    assert f"KRaft controller {leader} with directory id {directory_id(quorum, leader)}" in removed.stdout, (
        removed.stderr
    )
    quorum.leader(besides=leader)
    assert voters(quorum, rest[1]) == expected_replicas(quorum, *rest)


@pytest.mark.nightly
def test_brokers_pass_changes_on_to_the_leader(make_quorum: Any) -> None:
    """With --bootstrap-server the client asks any node that Metadata names, on its listener for clients."""
    quorum: Quorum = make_quorum(3, 1)
    clients = add_client_listeners(quorum)[4]
    quorum.start()
    quorum.produce(["one"])
    quorum.wait_until_caught_up()
    config = ["--command-config", str(quorum.nodes[4].properties)]
    added = tool("MetadataQuorumCommand", "--bootstrap-server", clients, *config, "add-controller")
    assert added.stdout.startswith("Added controller 4"), added.stdout + added.stderr
    for node_id in (4, quorum.leader().id):
        removing = ["--controller-id", str(node_id), "--controller-directory-id", directory_id(quorum, node_id)]
        removed = tool("MetadataQuorumCommand", "--bootstrap-server", clients, "remove-controller", *removing)
        assert f"controller {node_id}" in removed.stdout, removed.stdout + removed.stderr
    assert len(voters(quorum, quorum.leader().id)) == 2


@pytest.mark.nightly
def test_any_node_takes_changes_as_a_bootstrap_server(make_quorum: Any) -> None:
    """Nodes have one listener by default, and the client asks whichever node it likes best."""
    quorum: Quorum = make_quorum(3, 1, is_steady=True)
    quorum.start()
    quorum.produce(["one"])
    quorum.wait_until_caught_up()
    follower = next(id for id in (1, 2, 3) if id != quorum.leader().id)
    asked = ["--bootstrap-server", str(quorum.nodes[follower].endpoint)]
    added = tool("MetadataQuorumCommand", *asked, "--command-config", str(quorum.nodes[4].properties), "add-controller")
    assert added.stdout.startswith("Added controller 4"), added.stdout + added.stderr
    removing = ["--controller-id", "4", "--controller-directory-id", directory_id(quorum, 4)]
    removed = tool("MetadataQuorumCommand", *asked, "remove-controller", *removing)
    assert "controller 4" in removed.stdout, removed.stdout + removed.stderr


def test_features_are_described_and_never_taken_back(quorum: Quorum) -> None:
    controller = ["--bootstrap-controller", str(quorum.nodes[1].endpoint)]
    described = tool("FeatureCommand", *controller, "describe").stdout.split()
    assert list(zip(described[0:8:2], described[1:8:2], strict=True)) == [
        ("Feature:", "kraft.version"),
        ("SupportedMinVersion:", "0"),
        ("SupportedMaxVersion:", "1"),
        ("FinalizedVersionLevel:", "1"),
    ]
    refused = tool("FeatureCommand", *controller, "downgrade", "--feature", "kraft.version=0")
    assert refused.returncode == 1
    assert "Could not downgrade kraft.version to 0. kraft.version 0: it is 1" in refused.stdout
