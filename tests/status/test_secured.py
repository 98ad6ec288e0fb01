"""A node whose peers speak TLS alone is asked, and asks them, over TLS."""

from __future__ import annotations

import re
import time
from pathlib import Path

import attrs
import pytest

from kraft_trio.diagnosis.findings import machines
from kraft_trio.diagnosis.quorum_situation import Claim, Situation
from kraft_trio.security.certificates import KEY_STORE, TRUST_STORE, Certificate, first_expiry
from kraft_trio.status import explained
from kraft_trio.status.explained import Explained
from tests.security.test_mutual_tls import configs, nodes_of
from tests.support.certificates import authority, issue


async def test_the_nodes_are_asked_as_the_node_asks_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explained, "ANSWER_MS", 60_000)
    async with nodes_of(configs(tmp_path, range(1, 2))) as [node]:
        await node.append([b"x"])
        [claim] = (await Explained(node.tree).fields())["claims"]
    assert (claim["problem"], claim["nodeId"], claim["leaderId"]) == (None, 1, 1)


async def test_commands_to_copy_name_a_file_that_tells_how_to_connect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explained, "ANSWER_MS", 60_000)
    async with nodes_of(configs(tmp_path, range(1, 2))) as [node]:
        await node.append([b"x"])
        monkeypatch.setattr(explained, "ask_all", asked_without_a_leader)
        found = (await Explained(node.tree).fields())["findings"]
    [command] = [finding["command"] for finding in found if finding["code"] == "no-leader"]
    assert command == "kraft metadata-quorum --bootstrap-controller a:1,b:1 --command-config FILE explain"


async def test_a_certificate_that_expires_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the tests last until the year 3000."""
    monkeypatch.setattr(explained, "ANSWER_MS", 60_000)
    monkeypatch.setattr(machines, "SOON_DAYS", 10**6)
    async with nodes_of(configs(tmp_path, range(1, 2))) as [node]:
        await node.append([b"x"])
        found = (await Explained(node.tree).fields())["findings"]
    [text] = [finding["text"] for finding in found if finding["code"] == "certificate"]
    assert re.match(r"A certificate of node 1 expires in \d{6} days\. Replace its files", text)


async def test_authority_that_was_replaced_may_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of the authority, the old one stays in the trust stores until somebody removes it."""
    monkeypatch.setattr(explained, "ANSWER_MS", 60_000)
    [config] = configs(tmp_path, range(1, 2))
    with (tmp_path / "authority.pem").open("ab") as trusted:
        trusted.write(issue(authority(), "old authority", is_expired=True).cert_chain_pems[0].bytes())
    async with nodes_of([config]) as [node]:
        await node.append([b"x"])
        found = (await Explained(node.tree).fields())["findings"]
        assert float(node.metrics.values()["certificate-expiry-timestamp-seconds"]) < time.time()
    assert [finding["code"] for finding in found] == ["survival"]


@pytest.mark.parametrize(
    ("shown", "trusted", "expected"),
    [([], [], None), ([5, 4], [], 4), ([], [1, 3, 2], 3), ([5], [1, 3], 3), ([2, 5], [1, 3], 2)],
)
def test_first_certificate_that_connections_need(shown: list[int], trusted: list[int], expected: int | None) -> None:
    stores = ((KEY_STORE, shown), (TRUST_STORE, trusted))
    certificates = [Certificate(store, "CN=a", "1", expires_s) for store, times in stores for expires_s in times]
    assert first_expiry(certificates) == expected


def test_authority_in_use_expires_although_its_successor_is_trusted_already() -> None:
    """The first step of a change of the authority puts the new one next to it."""
    shown = Certificate(KEY_STORE, "CN=node", "1", 9, "CN=old")
    old, new = (Certificate(TRUST_STORE, f"CN={name}", "1", s, f"CN={name}") for name, s in (("old", 5), ("new", 99)))
    assert first_expiry([shown, old, new]) == 5
    assert first_expiry([attrs.evolve(shown, issuer="CN=new"), old, new]) == 9


async def asked_without_a_leader(*args: object, **options: object) -> Situation:
    claims = [Claim(f"{host}:1", node_id=id, epoch=5, voter_ids=(1, 2)) for id, host in ((1, "a"), (2, "b"))]
    return Situation(tuple(claims))
