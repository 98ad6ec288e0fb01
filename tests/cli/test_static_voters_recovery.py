"""What the tools say of a directory whose static voters were changed in the file, here one of Apache Kafka's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio

from harness.ports import free_ports
from kraft_trio import NodeConfig, format_node, open_node, random_uuid
from kraft_trio.cli import run
from kraft_trio.errors import StorageError
from tests.storage.support import kafkas_files


class KafkasVoter:
    """Voter 1 of a static quorum, of which Kafka wrote the partition; its file names other voters by now."""

    def __init__(self, directory: Path, *others: int, kind: str = "static") -> None:
        ports = free_ports(1 + len(others))
        self.keys = {
            "node.id": "1",
            "listeners": f"CONTROLLER://127.0.0.1:{ports[0]}",
            "controller.quorum.voters": ",".join(
                f"{id}@127.0.0.1:{port}" for id, port in zip((1, *others), ports, strict=True)
            ),
            "metadata.log.dir": str(directory / "node"),
            "kraft.metrics.interval.ms": "0",
        }
        self.file = directory / "node.properties"
        self.file.write_text("".join(f"{key}={value}\n" for key, value in self.keys.items()))
        self.endpoint = f"127.0.0.1:{ports[0]}"
        self.config = NodeConfig.from_mapping(self.keys)
        self.cluster_id = random_uuid()
        format_node(self.config, self.cluster_id)
        self.partition = directory / "node" / "__cluster_metadata-0"
        for name, content in kafkas_files(kind).items():
            (self.partition / name).write_bytes(content)

    def recover(self, *arguments: str) -> int:
        return run(["storage", "recover", "-c", str(self.file), "--unsafe-static-voters", *arguments])

    def starts(self) -> None:
        async def start() -> None:
            async with open_node(self.config):
                pass

        trio.run(start)


@pytest.fixture
def voter(tmp_path: Path) -> KafkasVoter:
    return KafkasVoter(tmp_path, 2, 3)


def test_every_tool_names_both_sets(voter: KafkasVoter, capsys: pytest.CaptureFixture[str]) -> None:
    said = f"{voter.partition}/quorum-state: the voters were 1, but controller.quorum.voters names 1, 2, 3: "
    with pytest.raises(StorageError, match="the voters were 1") as refused:
        voter.starts()
    assert str(refused.value).startswith(said)
    assert run(["storage", "info", "-c", str(voter.file)]) == 1
    assert f"  {said}" in capsys.readouterr().out
    asked = ["metadata-quorum", "--timeout-ms", "100", "explain", "-c", str(voter.file), "--json"]
    assert run(asked) == 1
    [told] = [one["text"] for one in json.loads(capsys.readouterr().out)["findings"] if one["code"] == "directory"]
    assert said in told


def test_recover_lets_it_start(voter: KafkasVoter, capsys: pytest.CaptureFixture[str]) -> None:
    before = (voter.partition / "quorum-state").read_bytes()
    assert voter.recover() == 1
    shown = capsys.readouterr()
    assert "VotersBefore:           1\nVotersAfter:            1, 2, 3\n" in shown.out
    assert "MayBeLost:              offsets 0 to 2: a leader without them makes this replica drop them\n" in shown.out
    assert f"--cluster-id {voter.cluster_id} confirms" in shown.err
    assert (voter.partition / "quorum-state").read_bytes() == before
    assert voter.recover("--cluster-id", voter.cluster_id) == 0
    voter.starts()
    assert run(["storage", "info", "-c", str(voter.file)]) == 0
    shown = capsys.readouterr()
    assert "Quorum state: epoch 2, leader none known, vote none\n" in shown.out
    assert "static voters, at offset 3 of epoch 1, from then on epoch 2\n" in shown.out
    assert voter.recover() == 1
    assert "the voters are 1, 2, 3 already" in capsys.readouterr().err


def test_nothing_to_accept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    voter = KafkasVoter(tmp_path, 2, 3, kind="dynamic")
    assert voter.recover() == 1
    assert "the log names the voters, so --unsafe-static-voters changes nothing" in capsys.readouterr().err
    assert run(["storage", "info", "-c", str(voter.file)]) == 0
    (voter.partition / "quorum-state").unlink()
    assert voter.recover() == 1
    assert "quorum-state: missing; a replica that never ran has no voters of before" in capsys.readouterr().err
    text = voter.file.read_text().replace("controller.quorum.voters=", "controller.quorum.bootstrap.servers=")
    voter.file.write_text(text.replace("1@", "").replace("2@", "").replace("3@", ""))
    assert voter.recover() == 1
    assert "controller.quorum.voters is empty" in capsys.readouterr().err
