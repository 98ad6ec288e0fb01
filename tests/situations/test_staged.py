"""Each staged situation: what `explain` says before, during and after, and that its advice, copied, repairs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft_trio.simulation import Cluster
from tests.situations import disks, dynamic_voters, machines, mixed, static_voters, survivors  # noqa: F401  # imported for their rows
from tests.situations.site import Site
from tests.situations.staged import STAGED, Staged
from tests.support.on_cluster import run_on_cluster


@pytest.mark.rotating(3)
@pytest.mark.parametrize("row", STAGED.values(), ids=STAGED)
def test_advice_is_right(row: Staged, tmp_path: Path) -> None:
    async def play(cluster: Cluster) -> None:
        site = Site(cluster, tmp_path)
        if row.writes:
            await site.write()
            await site.explain()
            expected = {"survival"} | ({"observers"} if row.setup.observer_ids else set())
            assert set(site.codes) == expected | ({"no-broker"} if site.kafkas else set()), site.told
        await row.play(site)
        harmed = [(what, node_id) for what, node_id in site.done if node_id in row.keeps]
        assert not harmed, "done to who may have the only copy"
        if row.is_repaired:
            await site.is_whole()
            await site.explain()
            assert not {one.severity for one in site.told} & {"critical"}, site.told

    run_on_cluster(play, row.setup)
