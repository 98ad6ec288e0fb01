"""The new node 4 of the command lines that add it: its key, its file and the identity in its directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
from quorums import CLUSTER_ID, up

from kraft_trio.protocol.types import ReplicaKey, directory_id_from_text

DIRECTORY_ID = "b8tRS7h4TJ2Vt43Dp85v2A"
NEW = ReplicaKey(4, directory_id_from_text(DIRECTORY_ID))
NEW_UP = attrs.evolve(up(4), key=NEW)


def written_below(path: Path) -> Callable[..., str]:
    """A function that writes both, below `path`, and returns the path of the file."""

    def write(*, formatted_as: str = "4", directory_id: str | None = DIRECTORY_ID, **changes: str) -> str:
        directory = path / "data"
        properties = {
            "node.id": "4",
            "listeners": "CONTROLLER://node-4:9093",
            "controller.quorum.bootstrap.servers": "b:2,c:3",
            "metadata.log.dir": str(directory),
            **changes,
        }
        file = path / "node-4.properties"
        file.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
        directory.mkdir()
        meta = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={formatted_as}\n"
        if directory_id is not None:
            meta += f"directory.id={directory_id}\n"
        (directory / "meta.properties").write_text(meta)
        return str(file)

    return write
