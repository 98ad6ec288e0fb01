"""The quorum that attacks share: it runs until an attack breaks it, or one needs another kind."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, TypeAlias

from scripts.attacks.quorum import AttackedQuorum

QuorumKind: TypeAlias = tuple[tuple[tuple[str, str], ...], Any]


def quorum_kind(module: ModuleType) -> QuorumKind:
    """Attacks of one kind share a quorum: the same SETTINGS, the same `start`."""
    return tuple(sorted(getattr(module, "SETTINGS", {}).items())), getattr(module, "start", None)


class OneQuorum:
    """At most one quorum at a time, each in a new directory; leaving the block kills it."""

    def __init__(self, home: Path, *, is_patient: bool) -> None:
        self._home = home
        self._is_patient = is_patient
        self._made = 0
        self._kind: QuorumKind = ((), None)
        self._quorum: AttackedQuorum | None = None

    def __enter__(self) -> OneQuorum:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def of(self, module: ModuleType) -> AttackedQuorum:
        """A quorum that runs and has a leader.  Raises AssertionError."""
        kind = quorum_kind(module)
        if self._quorum is not None and self._kind == kind:
            return self._quorum
        self.stop()
        self._made += 1
        directory = self._home / f"quorum-{self._made}"
        directory.mkdir()
        settings, start = kind
        self._kind, self._quorum = kind, AttackedQuorum(directory, dict(settings), is_patient=self._is_patient)
        if start is None:
            for node in self._quorum.nodes.values():
                node.start()
        else:
            start(self._quorum)
        self._quorum.wait_until_listening()
        self._quorum.cap()
        self._quorum.wait_until_caught_up()
        return self._quorum

    def stop(self) -> None:
        if self._quorum is not None:
            self._quorum.kill_all()
            self._quorum = None
