"""`kraft storage format -I` asks the other voters, so that no voter is formatted twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
import pytest
from fake_quorum import FakeQuorum
from quorums import CLUSTER_ID, key, leading, quorum, silent, unheard_of, up

from kraft_trio.cli import run
from kraft_trio.client.known_voter import why_known
from kraft_trio.client.quorum_description import NodeView, NoLeader, QuorumDescription
from kraft_trio.config.jaas import PLAIN_MODULE
from kraft_trio.protocol.types import Endpoint, directory_id_to_text

ELSEWHERE = "ILZ5MPTeRWakmJu99uBJCA"
INITIAL = ",".join(f"{id}@node-{id}:9093:{directory_id_to_text(key(id).directory_id)}" for id in (1, 2, 3))
NODE_2 = Endpoint("node-2", 9093)


def epoch_1(answer: QuorumDescription) -> QuorumDescription:
    return attrs.evolve(answer, leader_epoch=1)


def no_leader(*epochs: int | None) -> NoLeader:
    return NoLeader(CLUSTER_ID, tuple(NodeView(NODE_2, None, None, epoch) for epoch in epochs))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (quorum(leading(), up(2), up(3)), f"{key(3)} is a voter of the running quorum, which node 1 leads in epoch 5"),
        (quorum(leading(), up(2), unheard_of(3)), f"{key(3)} is a voter of the running quorum"),
        (epoch_1(quorum(leading(), up(2), silent(3))), f"{key(3)} is a voter of the running quorum"),
        (epoch_1(quorum(leading(), up(2), unheard_of(3))), None),
        (epoch_1(quorum(leading(), up(2), unheard_of(3, disk=2))), f"{key(3, disk=2)} is a voter of the running"),
        (quorum(leading(), up(2)), f"{key(3)} is not a voter of the running quorum"),
        (attrs.evolve(quorum(leading(), up(2), up(3)), cluster_id=ELSEWHERE), None),
        (attrs.evolve(quorum(leading(), up(2), up(3)), cluster_id=None), f"{key(3)} is a voter"),
        (no_leader(0, 4), "node-2:9093 runs this cluster and is in epoch 4"),
        (no_leader(0, None), None),
        (NoLeader(None, (NodeView(NODE_2, "Connection refused"),)), None),
    ],
    ids=[
        "alive",
        "not seen by a later leader",
        "seen in epoch 1",
        "started one after the other",
        "another disk",
        "removed",
        "another cluster",
        "untold cluster",
        "no leader now",
        "no leader ever",
        "unreachable",
    ],
)
def test_what_shows_that_a_voter_may_have_run(answer: QuorumDescription | NoLeader, reason: str | None) -> None:
    found = why_known(answer, CLUSTER_ID, key(3))
    assert (found is None) is (reason is None)
    assert found is None or found.startswith(str(reason))


def format_node_3(tmp_path: Path, *options: str) -> int:
    config = tmp_path / "node-3.properties"
    config.write_text(
        "node.id=3\nlisteners=CONTROLLER://node-3:9093\ncontroller.quorum.bootstrap.servers=node-1:9093\n"
        f"metadata.log.dir={tmp_path / 'data'}\n"
    )
    return run(["storage", "format", "-t", CLUSTER_ID, "-c", str(config), *options])


def test_a_known_voter_is_refused(tmp_path: Path, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    assert format_node_3(tmp_path, "-I", INITIAL) == 1
    assert fake.bootstrap == [(Endpoint("node-1", 9093), NODE_2)]
    error = capsys.readouterr().err
    assert "mount its disk" in error
    asked = f"node-1:9093,{NODE_2}"
    assert f"run `kraft metadata-quorum --bootstrap-controller {asked} replace -i 3`" in error
    assert not (tmp_path / "data").exists()


def test_the_command_to_copy_connects_as_the_node_does(
    tmp_path: Path, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "node-3.properties"
    assert format_node_3(tmp_path, "-I", INITIAL) == 1
    plain = capsys.readouterr().err
    with config.open("a") as more:
        more.write("listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT\nsasl.enabled.mechanisms=PLAIN\n")
        more.write("sasl.mechanism.controller.protocol=PLAIN\n")
        more.write(f'sasl.jaas.config={PLAIN_MODULE} required username="node" password="x" user_node="x";\n')
    assert run(["storage", "format", "-t", CLUSTER_ID, "-c", str(config), "-I", INITIAL]) == 1
    assert "--command-config FILE replace -i 3`" in capsys.readouterr().err
    assert "--command-config" not in plain


def test_the_first_election_is_waited_for(tmp_path: Path, fake: FakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    """Voters that are formatted at once: two of them may elect a leader while the third one asks."""
    fake.description = no_leader(1, 1)
    fake.later = [epoch_1(quorum(leading(), up(2), unheard_of(3)))]
    assert format_node_3(tmp_path, "-I", INITIAL) == 0
    shutil.rmtree(tmp_path / "data")
    fake.bootstrap.clear()
    fake.description = no_leader(1, 1)
    fake.later = [no_leader(None, None)]  # who has answered does so no more
    assert format_node_3(tmp_path, "-I", INITIAL) == 1
    assert "node-2:9093 runs this cluster and is in epoch 1" in capsys.readouterr().err


def test_an_override_formats_a_known_voter(tmp_path: Path, fake: FakeQuorum) -> None:
    assert format_node_3(tmp_path, "-I", INITIAL, "--unsafe-format-again") == 0
    assert not fake.bootstrap


def test_a_node_that_joins_asks_nobody(tmp_path: Path, fake: FakeQuorum) -> None:
    assert format_node_3(tmp_path, "-N") == 0
    assert not fake.bootstrap
