"""A node whose peers speak TLS alone is asked, and asks them, over TLS."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft_trio.status import explained
from kraft_trio.status.explained import Explained
from tests.security.test_mutual_tls import configs, nodes_of


async def test_the_nodes_are_asked_as_the_node_asks_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explained, "ANSWER_MS", 60_000)
    async with nodes_of(configs(tmp_path, range(1, 2))) as [node]:
        await node.append([b"x"])
        [claim] = (await Explained(node.tree).fields())["claims"]
    assert (claim["problem"], claim["nodeId"], claim["leaderId"]) == (None, 1, 1)
