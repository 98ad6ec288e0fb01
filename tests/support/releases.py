"""Releases: their code, and the directories that their nodes left, which later ones must start from.

`python -m tests.support.releases VERSION` keeps the directories that nodes of the checkout leave, below
`tests/data/releases/`, and the commit; what was kept of the version before is gone.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from harness.command import kraft
from harness.quorum import Quorum
from tests.acceptance.kv_quorum import KvQuorum, start_kv_quorum
from tests.kv.gateways import b64
from tests.support.programs import REPOSITORY

KEPT = REPOSITORY / "tests" / "data" / "releases"
SMALL = {
    "metadata.log.segment.bytes": "4096",
    "metadata.max.retention.bytes": "8192",
    "metadata.log.max.record.bytes.between.snapshots": "4096",
}
"""So that few records make segments, snapshots and trimmed logs."""


@attrs.frozen
class Release:
    """What is kept of a release."""

    version: str
    commit: str
    """Whose code it is."""
    values: Mapping[str, str]
    """Of the key-value store that the directories hold."""
    lease: int
    """A lease of the store, which does not expire while the tests run."""

    @property
    def directories(self) -> Path:
        """With a folder for each of the voters 1, 2 and 3."""
        return KEPT / self.version

    def unpack(self, directory: Path) -> None:
        """Write its package below a directory; skip the test if the clone does not have the commit."""
        archive = ["git", "-C", str(REPOSITORY), "archive", self.commit, "kraft_trio"]
        made = subprocess.run(archive, capture_output=True, check=False)
        if made.returncode != 0:
            pytest.skip(f"this clone does not have commit {self.commit} of release {self.version}")
        with tarfile.open(fileobj=io.BytesIO(made.stdout)) as files:
            # Python 3.11.2, which is Debian's, has no filters.
            files.extraction_filter = getattr(tarfile, "data_filter", None)
            files.extractall(directory)


def releases() -> list[Release]:
    """All that are kept, oldest first."""
    told = [json.loads(path.read_text()) for path in KEPT.glob("*/release.json")]
    kept = [Release(**fields) for fields in told]
    return sorted(kept, key=lambda release: tuple(map(int, release.version.split("."))))


def keep(version: str) -> None:
    """Let nodes of the checkout write directories, and keep them.  Raises CalledProcessError."""
    commit = subprocess.run(
        ["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    home = KEPT / version
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        quorum = Quorum(Path(temporary), settings=SMALL | {"kraft.state.machine": "kv"})
        try:
            kv = start_kv_quorum(quorum)
            values, lease = _live_through_much(kv)
            for node in quorum.nodes.values():
                assert node.stop() == 0
        finally:
            quorum.kill_all()
        for node in quorum.nodes.values():
            shutil.copytree(node.directory, home / str(node.id), ignore=shutil.ignore_patterns(".lock", "disk-reserve"))
    told = attrs.asdict(Release(version, commit, values, lease))
    (home / "release.json").write_text(json.dumps(told, indent=1) + "\n")


def put(kv: KvQuorum, key: str, value: str, lease: int = 0) -> None:
    """Write by the gateway of a node that runs; raises AssertionError unless that is done."""
    asked = next(node.id for node in kv.quorum.nodes.values() if node.running)
    status, answer = kv.post(asked, "/v3/kv/put", {"key": b64(key), "value": b64(value), "lease": lease})
    assert status == 200, answer


def values_of(kv: KvQuorum, node_id: int) -> dict[str, str]:
    """All that the store holds, as this node reads it."""
    status, answer = kv.post(node_id, "/v3/kv/range", {"key": b64("\0"), "range_end": b64("\0")})
    assert status == 200, answer
    pairs = answer.get("kvs", [])
    return {b64decode(pair["key"]).decode(): b64decode(pair["value"]).decode() for pair in pairs}


def _live_through_much(kv: KvQuorum) -> tuple[dict[str, str], int]:
    """Puts, a deletion, a lease, kills, a voter that leaves and comes back, snapshots; the values, and the lease."""
    quorum = kv.quorum
    values = {}

    def put_some(count: int) -> None:
        for _ in range(count):
            number = len(values)
            values[f"key {number}"] = f"value {number} " * 10
            put(kv, f"key {number}", values[f"key {number}"], lease)

    status, granted = kv.post(1, "/v3/lease/grant", {"TTL": 10**9})
    assert status == 200, granted
    lease = int(granted["ID"])
    put_some(20)
    assert kv.post(1, "/v3/kv/deleterange", {"key": b64("key 0")})[0] == 200
    killed = quorum.leader()
    killed.kill()
    kv.start(killed.id)
    put_some(20)
    leader = quorum.leader()
    leaves = next(node for node in quorum.nodes.values() if node is not leader)
    command = ["metadata-quorum", "--bootstrap-controller", str(leader.endpoint)]
    for action in (["remove-controller", "-i", str(leaves.id)], ["add-controller", "-c", str(leaves.properties)]):
        done = kraft(*command, *action)
        assert done.returncode == 0, done.stderr
    put_some(20)
    quorum.wait_until_caught_up()
    del values["key 0"]
    return values, lease


if __name__ == "__main__":
    os.environ.pop("KRAFT_FORK_SERVER", None)
    keep(*sys.argv[1:])
