"""What `kraft metadata-quorum explain` says before, during and after a fault, and whether it is so."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import trio

from harness.command import kraft
from harness.witness_cluster import NODES, WitnessCluster

WITHIN_S: Final = 15.0
"""A leader needs its fetch timeout to notice that a voter is down, and controllers register after they have started."""

Said: TypeAlias = Sequence[tuple[str, str, str]]
"""The severity, the code and the text of each finding."""


class Explained:
    """Runs the command against all three nodes.  What it says must become right, and soon."""

    def __init__(self, cluster: WitnessCluster) -> None:
        self._cluster = cluster
        self.times = 0
        """How many situations were explained."""
        self.codes: Counter[str] = Counter()
        """The codes of the findings that it ended with."""
        self.wrong: list[str] = []
        """What did not become right, with what was said last."""

    async def all_well(self) -> None:
        """All run: nothing is critical, and the quorum survives a failure."""
        await self._until("all are well", says_all_is_well)

    async def down(self, *node_ids: int) -> None:
        """These are down or paused, and the others have a majority: each is named, and nothing is critical."""
        await self._until(
            f"{' and '.join(map(str, node_ids))} down", lambda said: not is_critical(said) and names(said, node_ids)
        )

    async def no_majority(self, *node_ids: int) -> None:
        """These are down, and there is no majority: that is critical, and each is named."""
        await self._until(
            f"{' and '.join(map(str, node_ids))} down, no majority",
            lambda said: is_critical(said) and names(said, node_ids),
        )

    async def _until(self, situation: str, is_right: Callable[[Said], bool]) -> None:
        self.times += 1
        ends_at = trio.current_time() + WITHIN_S
        while not is_right(said := await trio.to_thread.run_sync(self._ask)):
            if trio.current_time() > ends_at:
                told = " ".join(f"{severity}: {text}" for severity, _, text in said)
                self.wrong.append(f"{situation}, and explain says: {told}")
                return
        self.codes.update(code for _, code, _ in said)

    def _ask(self) -> Said:
        servers = ",".join(f"127.0.0.1:{self._cluster.ports[node_id]}" for node_id in NODES)
        completed = kraft("metadata-quorum", "--bootstrap-controller", servers, "explain", "--json")
        if not completed.stdout:
            return [("critical", "nothing", completed.stderr)]
        told: dict[str, Any] = json.loads(completed.stdout)
        return [(one["severity"], one["code"], one["text"]) for one in told["findings"]]


def says_all_is_well(said: Said) -> bool:
    """Whether nothing is critical, and the quorum survives one failure more."""
    return not is_critical(said) and any((severity, code) == ("ok", "survival") for severity, code, _ in said)


def is_critical(said: Said) -> bool:
    """Whether any finding is."""
    return any(severity == "critical" for severity, _, _ in said)


def names(said: Said, node_ids: Sequence[int]) -> bool:
    """Whether the findings name each of the nodes as one that is down or does not answer."""
    silent = [text for _, code, text in said if code in ("voter-behind", "not-reached", "no-majority", "no-leader")]
    return all(any(re.search(rf"\b{node_id}\b", text) for text in silent) for node_id in node_ids)
