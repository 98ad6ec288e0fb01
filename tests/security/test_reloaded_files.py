"""Files that a node reads again: what is logged when somebody asks for it, and when their certificates expire."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest
import structlog.testing

from kraft_trio.config import NodeConfig
from kraft_trio.config.sasl_fields import SCRAM_SHA_256
from kraft_trio.config.secret import Secret
from kraft_trio.errors import ConfigError
from kraft_trio.metrics.metrics_file import METRICS_FILE, read_metrics
from kraft_trio.security.credentials import NodeCredentials
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.security.scram_file import add_to_scram_file
from kraft_trio.security.scram_users import ScramUsers
from kraft_trio.security.watched_files import WatchedFiles, look_at_all, reload_all
from kraft_trio.wire.tcp_network import TcpNetwork
from tests.security.test_mutual_tls import configs, nodes_of
from tests.support.certificates import authority, foreign_authority, issue, tls_keys, write_store


def test_reload_reads_again_what_has_not_changed_and_tells_the_outcome() -> None:
    told: list[str] = []

    def read() -> None:
        told.append("read")
        if told.count("read") == 3:
            raise ConfigError("rules.toml: broken")

    files = WatchedFiles(lambda: "the same", read, taken=lambda: told.append("taken"), refused=told.append)
    look_at_all([files])
    assert told == ["read"]
    reload_all([files])
    reload_all([files])
    assert told == ["read", "read", "taken", "read", "rules.toml: broken"]


def test_users_of_scram_are_read_again(tmp_path: Path) -> None:
    path = str(tmp_path / "users")
    add_to_scram_file(path, [ScramCredential.of_password("alice", SCRAM_SHA_256, Secret("pencil"), iterations=4096)])
    users = ScramUsers(path)
    with structlog.testing.capture_logs() as lines:
        reload_all([users.files])
        (tmp_path / "users").write_text("half a li")
        reload_all([users.files])
    assert [line["event"] for line in lines] == ["SCRAM users reloaded", "changed SCRAM users not used"]
    assert lines[0]["users"] == 1
    assert users.credential(SCRAM_SHA_256, "alice").name == "alice"


LINE = re.compile(r"^kraft_certificate_expiry_timestamp_seconds\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.MULTILINE)


async def test_expiry_of_each_certificate_is_a_metric(tmp_path: Path) -> None:
    """In the text that both the file and /metrics have; also after a renewal, with two authorities of one name."""
    (config,) = configs(tmp_path, range(1, 2), {"kraft.metrics.interval.ms": "10"})
    async with nodes_of([config]) as (node,):

        def told() -> dict[tuple[str, str], float]:
            text = node.metrics.exposition().decode()
            found = [(dict(re.findall(r'(\w+)="([^"]*)"', it["labels"])), it["value"]) for it in LINE.finditer(text)]
            assert {labels["node_id"] for labels, _ in found} == {"1"}
            assert {labels["listener"] for labels, _ in found} == {"CONTROLLER"}
            assert all("trustme" in labels["subject"] for labels, _ in found)
            return {(labels["store"], labels["serial"]): float(value) for labels, value in found}

        before = told()
        assert sorted(store for store, _ in before) == ["key-store", "trust-store"]
        expires = datetime(2200, 1, 1, tzinfo=UTC)
        renewed = authority().issue_cert("localhost", common_name="node-1", not_after=expires)
        write_store(tmp_path / "node-1.pem", renewed)
        trusted = authority().cert_pem.bytes() + foreign_authority().cert_pem.bytes()
        (tmp_path / "authority.pem").write_bytes(trusted)
        reload_all(node.tree.security_files)
        after = told()
        assert len(after) == 3
        assert [expiry for (store, _), expiry in after.items() if store == "key-store"] == [expires.timestamp()]
        assert b"kraft_certificate_expiry_timestamp_seconds{" in node.metrics.exposition(open_metrics=True)
        node.metrics.registry.get_sample_value("")
        assert node.metrics.exposition().count(b"kraft_certificate_expiry_timestamp_seconds{") == 3
        least = read_metrics(METRICS_FILE, node.metrics.exposition()).values["certificate-expiry-timestamp-seconds"]
        assert least == min(after.values()) == node.metrics.values()["certificate-expiry-timestamp-seconds"]


async def test_expired_certificate_does_not_replace_one_that_others_accept(tmp_path: Path) -> None:
    (config,) = configs(tmp_path, range(1, 2))
    async with nodes_of([config]) as (node,):
        before = node.metrics.values()["certificate-expiry-timestamp-seconds"]
        write_store(tmp_path / "node-1.pem", issue(authority(), "node-1", is_expired=True))
        with structlog.testing.capture_logs() as lines:
            reload_all(node.tree.security_files)
        assert [line["event"] for line in lines] == 2 * ["changed certificates not used"]
        assert f"ssl.keystore.location={tmp_path / 'node-1.pem'}: the certificate expired at 20" in lines[0]["reason"]
        assert node.metrics.values()["certificate-expiry-timestamp-seconds"] == before


async def test_node_that_begins_with_an_expired_certificate_says_so(tmp_path: Path) -> None:
    """Otherwise its log has only what the others say of the handshakes."""
    (config,) = configs(tmp_path, range(1, 2))
    write_store(tmp_path / "node-1.pem", issue(authority(), "node-1", is_expired=True))
    with structlog.testing.capture_logs() as lines:
        async with nodes_of([config]):
            pass
    told = [line for line in lines if line["event"] == "the certificate has expired: others refuse it"]
    assert {(line["listener"], line["expired_at"]) for line in told} == {("CONTROLLER", "2020-02-01 00:00:00+00:00")}


RULES = "RULE:^CN=([^,]+),.*$/$1/"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("authority", "certificate verify failed: "),
        ("host", "certificate is not valid for 'localhost'"),
        ("name", "no rule of ssl.principal.mapping.rules matches 'CN="),
    ],
)
async def test_certificate_that_other_nodes_would_refuse_does_not_replace_a_good_one(
    wrong: str, reason: str, tmp_path: Path
) -> None:
    """At the start, the node only warns: the others may know better."""
    bad = {
        "authority": issue(foreign_authority(), "node-1"),
        "host": issue(authority(), "node-1", "other.example"),
        "name": authority().issue_cert("localhost", common_name="node-1", organization_name="X"),
    }[wrong]
    rules = RULES if wrong != "name" else "RULE:^CN=([^,]+),OU=[^,]*,O=trustme.*$/$1/"
    (config,) = configs(tmp_path, range(1, 2), {"ssl.principal.mapping.rules": rules})
    store = tmp_path / "node-1.pem"
    good = store.read_bytes()
    async with nodes_of([config]) as (node,):
        before = node.tree.credentials
        assert before is not None
        used = [one.current() for one in before.all]
        write_store(store, bad)
        with structlog.testing.capture_logs() as lines:
            reload_all(node.tree.security_files)
            assert [one.current() for one in before.all] == used
            store.write_bytes(good)
            reload_all(node.tree.security_files)
        assert [line["event"] for line in lines] == 2 * ["changed certificates not used"] + 2 * [
            "certificates reloaded"
        ]
        told = lines[0]["reason"]
        assert told.startswith(f"ssl.keystore.location={store}: nodes with such files would refuse each other: ")
        assert reason in told
        trusted = f"ssl.truststore.location={config.tls.truststore_location}"
        assert told.endswith(f"expected a certificate for localhost from an authority in {trusted}")
    write_store(store, bad)
    with structlog.testing.capture_logs() as lines:
        async with nodes_of([config]):
            pass
    warned = [line for line in lines if line["event"] == "the other nodes may refuse the certificate"]
    assert [(line["listener"], reason in line["reason"]) for line in warned] == 2 * [("CONTROLLER", True)]


def test_other_listeners_keep_the_same_files(tmp_path: Path) -> None:
    """But a listener with files of its own may have another authority."""
    store = write_store(tmp_path / "other.pem", issue(authority(), "other"))
    config = NodeConfig.from_mapping(
        {
            "node.id": 1,
            "listeners": "CONTROLLER://localhost:1,CLIENT://localhost:2,OTHER://localhost:3",
            "listener.security.protocol.map": "CONTROLLER:SSL,CLIENT:SSL,OTHER:SSL",
            "metadata.log.dir": str(tmp_path / "node"),
            "kraft.http.listener": "HTTPS://localhost:4",
            "listener.name.other.ssl.keystore.location": str(store),
            "listener.name.client.ssl.client.auth": "none",
            **tls_keys(tmp_path, "node-1"),
        }
    )
    _, credentials = NodeCredentials.of(TcpNetwork(), config)
    for changed in (store, tmp_path / "node-1.pem"):
        write_store(changed, issue(foreign_authority(), "node-1"))
    with structlog.testing.capture_logs() as lines:
        look_at_all(one.files for one in credentials.all)
    outcomes = {line["listener"]: line["event"] for line in lines}
    kept, taken = "changed certificates not used", "certificates reloaded"
    assert outcomes == {"CONTROLLER": kept, "CLIENT": kept, "HTTPS": kept, "OTHER": taken}


async def test_any_certificate_replaces_one_that_has_expired(tmp_path: Path) -> None:
    """Others refuse both, as far as the node can tell, but they may know better."""
    (config,) = configs(tmp_path, range(1, 2))
    async with nodes_of([config]) as (node,):
        assert node.tree.credentials is not None
        for one in node.tree.credentials.all:
            one.certificates = tuple(attrs.evolve(it, expires_s=1) for it in one.certificates)
        write_store(tmp_path / "node-1.pem", issue(foreign_authority(), "node-1"))
        with structlog.testing.capture_logs() as lines:
            reload_all(node.tree.security_files)
        events = {line["event"] for line in lines}
        assert events == {"the other nodes may refuse the certificate", "certificates reloaded"}


async def test_certificate_that_cannot_be_used_keeps_the_old_expiry(tmp_path: Path) -> None:
    (config,) = configs(tmp_path, range(1, 2))
    async with nodes_of([config]) as (node,):
        before = node.metrics.values()["certificate-expiry-timestamp-seconds"]
        write_store(tmp_path / "node-1.pem", issue(authority(), "other")).write_text("half a fi")
        with structlog.testing.capture_logs() as lines:
            reload_all(node.tree.security_files)
        assert [line["event"] for line in lines] == 2 * ["changed certificates not used"]
        assert node.metrics.values()["certificate-expiry-timestamp-seconds"] == before
