"""`kraft kv` against three nodes: the commands of etcdctl, on whichever endpoint answers."""

from __future__ import annotations

import io
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from harness.command import start_kraft
from harness.waiting import WAIT_SECONDS, wait_until
from kraft_trio.cli import run
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.kv_quorum import KvQuorum, make_kv_quorum

pytestmark = pytest.mark.rotating(3, by_file=True)

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def kv(make_module_quorum: MakeQuorum) -> KvQuorum:
    return make_kv_quorum(make_module_quorum, voters=1, kraft_kv_quota_bytes="100000")


@pytest.fixture
def endpoints(kv: KvQuorum, monkeypatch: pytest.MonkeyPatch) -> str:
    """The first one refuses connections."""
    urls = f"http://127.0.0.1:1,127.0.0.1:{kv.ports[1]}"
    monkeypatch.setenv("KRAFT_KV_ENDPOINTS", urls)
    return urls


def out_of(captured: Captured, *arguments: str, code: int = 0) -> str:
    """What a command prints, on stderr if it is to fail."""
    assert run(["kv", *arguments]) == code
    return captured.readouterr().err if code else captured.readouterr().out


@pytest.mark.usefixtures("endpoints")
def test_put_get_and_del(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert out_of(capsys, "put", "c/a", "1") == "OK\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from stdin")))
    assert out_of(capsys, "put", "c/b", "--prev-kv") == "OK\n"
    assert out_of(capsys, "get", "c/", "--prefix") == "c/a\n1\nc/b\nfrom stdin\n"
    assert out_of(capsys, "get", "c/a", "c/b") == "c/a\n1\n"
    assert out_of(capsys, "get", "c/", "--prefix", "--keys-only", "--order", "DESCEND") == "c/b\nc/a\n"
    assert out_of(capsys, "get", "c/", "--from-key", "--count-only") == "2\n"
    assert out_of(capsys, "put", "c/a", "2", "--prev-kv") == "OK\nc/a\n1\n"
    answer = json.loads(out_of(capsys, "-w", "json", "get", "c/a"))
    assert json.loads(out_of(capsys, "get", "c/a", "--json")) == answer
    revision = str(int(answer["kvs"][0]["mod_revision"]) - 1)
    assert out_of(capsys, "get", "c/a", "--rev", revision, "--print-value-only") == "1\n"
    assert out_of(capsys, "del", "c/", "--prefix", "--prev-kv") == "2\nc/a\n2\nc/b\nfrom stdin\n"
    assert out_of(capsys, "get", "c/", "--prefix") == ""


@pytest.mark.usefixtures("endpoints")
def test_a_transaction_takes_one_of_two_ways(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'create("t") = "0"\n\nput t "the value"\nget t\n\ndel t\n'
    outputs = []
    for _ in range(2):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        outputs.append(out_of(capsys, "txn"))
    assert outputs == ["SUCCESS\nOK\nt\nthe value\n", "FAILURE\n1\n"]
    monkeypatch.setattr("sys.stdin", io.StringIO("size(t) = 1\n"))
    assert "'size(t) = 1': a comparison such as" in out_of(capsys, "txn", code=2)


@pytest.mark.usefixtures("endpoints")
def test_leases(capsys: Captured) -> None:
    name = out_of(capsys, "lease", "grant", "60").split()[1]
    assert out_of(capsys, "lease", "list") == f"{name}\n"
    out_of(capsys, "put", "l", "1", "--lease", name)
    assert out_of(capsys, "lease", "keep-alive", "--once", name) == f"lease {name} keepalived with TTL(60)\n"
    told = out_of(capsys, "lease", "timetolive", "--keys", name).splitlines()
    assert told[0].startswith(f"lease {name} granted with TTL(60s), remaining(")
    assert told[1:] == ["l"]
    assert out_of(capsys, "lease", "revoke", name) == f"lease {name} revoked\n"
    assert out_of(capsys, "get", "l") == ""
    assert out_of(capsys, "lease", "timetolive", name) == f"lease {name} already expired\n"
    assert "expired or revoked" in out_of(capsys, "lease", "keep-alive", name, code=1)


@pytest.mark.usefixtures("endpoints")
def test_a_refusal_is_one_line(capsys: Captured) -> None:
    assert out_of(capsys, "get", "a", "--rev", "1000", code=1) == (
        "kraft: error: etcdserver: mvcc: required revision is a future revision\n"
    )
    assert "127.0.0.1:1" in out_of(capsys, "--endpoints", "http://127.0.0.1:1", "get", "a", code=1)
    assert "only one of" in out_of(capsys, "get", "a", "b", "--prefix", code=2)


def test_a_watch_prints_changes_as_they_come(endpoints: str, tmp_path: Path, capsys: Captured) -> None:
    with (tmp_path / "out").open("wb") as output:
        watching: Any = start_kraft(["kv", "watch", "w/", "--prefix", "--rev", "1"], stdout=output, stderr=output)
    try:
        out_of(capsys, "put", "w/a", "1")
        out_of(capsys, "del", "w/a")
        expected = "PUT\nw/a\n1\nDELETE\nw/a\n\n"
        wait_until("both changes are printed", lambda: (tmp_path / "out").read_text() == expected)
    finally:
        watching.send_signal(signal.SIGINT)
        watching.wait(WAIT_SECONDS)


@pytest.mark.usefixtures("endpoints")
def test_a_full_store_takes_keys_again_once_there_is_room(capsys: Captured) -> None:
    """The last test: a compaction ends watches of old revisions."""
    before = out_of(capsys, "status")
    assert before.startswith("size ")
    assert before.endswith(" bytes, quota 100000 bytes\n")
    assert out_of(capsys, "alarm", "list") == ""
    assert "database space exceeded" in out_of(capsys, "put", "large", "x" * 100_000, code=1)
    assert out_of(capsys, "status") == before + "alarm:NOSPACE\n"
    assert "database space exceeded" in out_of(capsys, "put", "small", "x", code=1)
    assert out_of(capsys, "alarm", "list") == "alarm:NOSPACE\n"
    assert out_of(capsys, "alarm", "disarm") == "alarm:NOSPACE\n"
    assert out_of(capsys, "put", "small", "x") == "OK\n"
    revision = json.loads(out_of(capsys, "-w", "json", "del", "small"))["header"]["revision"]
    assert out_of(capsys, "compaction", revision) == f"compacted revision {revision}\n"
