"""Apache Kafka's own code reads our quorum-state, second line and all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import trio

from harness.kafka import adapted, java
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import ReplicaKey, directory_id_from_text
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.directory.quorum_state import QuorumStateFile
from kraft_trio.storage.disk.real_disk import RealDisk

JVM_SECONDS = 90

READER = """
import java.io.File;
import org.apache.kafka.raft.ElectionState;
import org.apache.kafka.raft.FileQuorumStateStore;

public class Reader {
    public static void main(String[] paths) {
        for (String path : paths) {
            ElectionState state = new FileQuorumStateStore(new File(path)).readElectionState().get();
            System.out.println(state.epoch() + " " + state.leaderIdOrSentinel() + " "
                + state.optionalVotedKey().map(key -> key.id() + "-" + key.directoryId().get()).orElse("none"));
        }
    }
}
"""

DIRECTORY_ID = "J8aAPcfLQt2bqs1JT_rMgQ"


def test_kafka_reads_the_first_line(tmp_path: Path) -> None:
    states = {
        "led": ElectionState(7, leader_id=2),
        "voted": ElectionState(8, voted_key=ReplicaKey(3, directory_id_from_text(DIRECTORY_ID))),
    }
    disk = RealDisk()
    for name, state in states.items():
        trio.run(QuorumStateFile(disk, str(tmp_path / name)).write, state, 1, VoterSet())
        assert len((tmp_path / name).read_bytes().splitlines()) == 2
    disk.close()
    (tmp_path / "Reader.java").write_text(adapted(READER))
    read = subprocess.run(
        java(str(tmp_path / "Reader.java"), *(str(tmp_path / name) for name in states)),
        capture_output=True,
        text=True,
        timeout=JVM_SECONDS,
        check=False,
    )
    assert read.stdout.splitlines() == ["7 2 none", f"8 -1 3-{DIRECTORY_ID}"], read.stderr
