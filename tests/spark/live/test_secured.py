"""Spark's readers and writers against nodes with TLS and SASL."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from harness.quorum import Quorum
from kraft_trio.cli import run as run_command_line
from kraft_trio.config.jaas import SCRAM_MODULE
from kraft_trio.errors import NetworkError
from kraft_trio.spark.live.options import read_live_options
from kraft_trio.spark.live.planning import committed_end
from kraft_trio.spark.live.quorum import QuorumLeader, ask_leader
from tests.acceptance.conftest import MakeQuorum
from tests.spark.live.reading import committed_rows, latest, make_reader_of, rows
from tests.spark.live.test_writing import append
from tests.support.certificates import authority, foreign_authority, issue, write_store, write_trust

pytestmark = pytest.mark.rotating(5)

HOST = "127.0.0.1"


def login(password: str) -> str:
    return f'{SCRAM_MODULE} required username="alice" password="{password}";'


async def end(leader: QuorumLeader) -> int:
    return committed_end(leader)


@pytest.fixture
def secured(make_quorum: MakeQuorum, tmp_path: Path) -> tuple[Quorum, dict[str, str]]:
    """A running quorum that lets nobody in without a certificate and a password, and the options for it."""
    quorum: Quorum = make_quorum(1)
    stores = {
        "ssl.keystore.location": str(write_store(tmp_path / "store.pem", issue(authority(), "node", HOST))),
        "ssl.truststore.location": str(write_trust(tmp_path / "trust.pem", authority())),
    }
    [node] = quorum.nodes.values()
    keys = {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL",
        "listener.name.controller.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
        "sasl.jaas.config": login("secret"),
        **stores,
    }
    with node.properties.open("a") as file:
        file.writelines(f"{key}={value}\n" for key, value in keys.items())
    user = "SCRAM-SHA-512=[name=alice,password=secret]"
    assert run_command_line(["storage", "add-scram", "-c", str(node.properties), user]) == 0
    node.start()
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": login("secret"),
        **stores,
    }
    given = {f"kafka.{key}": text for key, text in options.items()}
    leading = read_live_options({"bootstrapControllers": quorum.bootstrap_servers, **given})
    trio.run(ask_leader, leading.address, end)
    return quorum, given


def test_rows_are_written_and_read(secured: tuple[Quorum, dict[str, str]]) -> None:
    quorum, options = secured
    assert append(quorum, [["one", "two"], ["three"]], **options).records == 3
    reader = make_reader_of(quorum.bootstrap_servers, **options)
    start = reader.initialOffset()
    read = rows(reader, start, latest(reader, start))
    assert [value for _, value in read if value in (b"one", b"two", b"three")] == [b"one", b"two", b"three"]
    assert [row for row in committed_rows(quorum.nodes[1]) if row not in read] == []


def test_who_is_not_let_in_hears_why(secured: tuple[Quorum, dict[str, str]], tmp_path: Path) -> None:
    quorum, options = secured
    foreign = str(write_trust(tmp_path / "foreign.pem", foreign_authority()))
    refused = {
        "SASL: sasl_authentication_failed": {"kafka.sasl.jaas.config": login("wrong")},
        "certificate verify failed": {"kafka.ssl.truststore.location": foreign},
    }
    for reason, wrong in refused.items():
        given = {"bootstrapControllers": quorum.bootstrap_servers, "timeoutMs": "1", **options, **wrong}
        with pytest.raises(NetworkError, match=reason) as error:
            trio.run(ask_leader, read_live_options(given).address, end)
        assert '"wrong"' not in str(error.value)
