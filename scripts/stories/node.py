"""One `kraft server start` process of a story, in a directory that it shares with the others."""

from __future__ import annotations

from pathlib import Path

from harness.node import NodeProcess
from kraft_trio.protocol.types import ReplicaKey, directory_id_from_text


class StoryError(AssertionError):
    """The story went wrong; the message says what was expected and what happened."""


class StorySkipped(Exception):
    """The story needs a program that is not there; the message says which."""


class Node(NodeProcess):
    """A node whose command line names its files relative to the story's directory."""

    log_format = "console"
    has_own_session = True

    def __init__(self, node_id: int, home: Path, port: int) -> None:
        super().__init__(node_id, home / f"node-{node_id}", port)
        self.working_directory = home
        self.log = home / f"node-{node_id}.log"

    @property
    def directory_id(self) -> str:
        """The id that `kraft storage format` stored, as text."""
        lines = (self.directory / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, directory_id_from_text(self.directory_id))
