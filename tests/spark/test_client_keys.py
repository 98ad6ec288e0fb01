"""Options of secured quorums: Kafka's client keys behind `kafka.`, and no secret in any text."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import trio

from kraft_trio.config.jaas import SCRAM_MODULE
from kraft_trio.config.properties import CLIENT_KEYS
from kraft_trio.errors import ConfigError
from kraft_trio.security.client_network import Security
from kraft_trio.spark.live.fetching import LogRange
from kraft_trio.spark.live.options import is_live, read_live_options
from kraft_trio.spark.live.planning import committed_end
from kraft_trio.spark.live.quorum import QuorumLeader, ask_leader
from kraft_trio.spark.live.reader import LogPartition
from kraft_trio.spark.options import READ_OPTIONS, read_options
from kraft_trio.spark.writing.options import read_write_options
from tests.support.certificates import authority, write_trust

QUORUM = {"bootstrapControllers": "one:9093", "timeoutMs": "1"}
PASSWORD = "s3cret-word"
JAAS = f'{SCRAM_MODULE} required username="alice" password="{PASSWORD}";'
SASL = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": JAAS,
    "kafka.ssl.truststore.location": "/etc/kraft/authority.pem",
}


def test_keys_of_a_client_are_options_of_readers_and_writers() -> None:
    without_prefix = {name.removeprefix("kafka."): text for name, text in SASL.items()}
    for read in (read_live_options, read_write_options):
        security = read({**QUORUM, **SASL}).address.security
        assert security == Security.of_client(without_prefix), "what a file of --command-config says"
        assert security.login is not None
        assert security.login.username == "alice"
        assert security.tls is not None
        assert security.tls.truststore_location == "/etc/kraft/authority.pem"
    assert read_live_options(QUORUM).address.security == Security()


def test_the_case_of_a_key_does_not_matter() -> None:
    """Spark gives names in lower case, or as the user writes them."""
    upper = {name.upper(): text for name, text in SASL.items()}
    assert read_live_options({**QUORUM, **upper}) == read_live_options({**QUORUM, **SASL})


def test_what_executors_get_can_be_pickled_and_shows_no_secret() -> None:
    options = read_live_options({**QUORUM, **SASL})
    partition = LogPartition(options, LogRange(None, 0, 1))
    assert pickle.loads(pickle.dumps(options)) == options
    assert PASSWORD in str(pickle.loads(pickle.dumps(partition)).options.address.security.login.password.value)
    assert PASSWORD not in f"{options!r} {options} {partition!r} {options.address!r}"


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("kafka.ssl.keystore.pasword", PASSWORD, "there is no such option; the nearest one is kafka.ssl.keystore.pass"),
        ("kafka.group.id", "g", "there is no such option; the nearest one is kafka."),
        ("kafka.ssl.client.auth", "none", "there is no such option"),
        ("kafka.security.protocol", "TLS", "option kafka.security.protocol=TLS; expected PLAINTEXT or SSL or"),
        ("kafka.sasl.mechanism", "GSSAPI", "option kafka.sasl.mechanism=GSSAPI"),
        ("kafka.sasl.jaas.config", f'a b "{PASSWORD}"', r"option kafka.sasl.jaas.config=\[hidden\]"),
        ("kafka.ssl.truststore.type", "JKS", "option kafka.ssl.truststore.type=JKS; expected PEM or PKCS12"),
        ("kafka.security.protocol", "SASL_PLAINTEXT", "kafka.ssl.truststore.location: has no effect with kafka.sec"),
        ("kafka.security.protocol", "SSL", "kafka.sasl.mechanism: has no effect with kafka.security.protocol=SSL"),
        ("sasl.jaas.config", JAAS, r"option sasl.jaas.config=\[hidden\]: there is no such option"),
        ("jaas", JAAS, r"option jaas=\[hidden\]: there is no such option"),
        ("path", "a password", r"option path=\[hidden\]: only for directories"),
    ],
)
def test_what_cannot_be_used_is_named_without_secrets(key: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        read_live_options({**QUORUM, **SASL, key: text})
    assert PASSWORD not in str(refused.value)


def test_directories_have_no_security_and_show_none() -> None:
    with pytest.raises(ConfigError, match="there is no such option") as refused:
        read_options("kraft", READ_OPTIONS, {"kafka.sasl.jaas.config": JAAS})
    assert PASSWORD not in str(refused.value)


def test_keys_alone_do_not_make_a_live_quorum() -> None:
    assert not is_live(SASL)
    assert is_live({"KAFKA.bootstrap.servers": "one:9093"})
    assert "security.protocol" in CLIENT_KEYS


def test_bootstrap_servers_are_the_same_nodes() -> None:
    of_kafka = read_live_options({"kafka.bootstrap.servers": "one:9093", "timeoutMs": "1"})
    assert of_kafka == read_live_options(QUORUM)
    assert read_live_options({**QUORUM, "kafka.bootstrap.servers": "one:9093"}) == of_kafka
    with pytest.raises(
        ConfigError, match=r"bootstrap.servers=two:9093: is bootstrapControllers=one:9093 too, expected"
    ):
        read_live_options({**QUORUM, "kafka.bootstrap.servers": "two:9093"})


async def end(leader: QuorumLeader) -> int:
    return committed_end(leader)


def test_a_file_that_is_not_there_is_told_at_once_with_the_machine(tmp_path: Path) -> None:
    options = read_live_options({**QUORUM, **SASL, "kafka.ssl.truststore.location": str(tmp_path / "none.pem")})
    told = r"option kafka.ssl.truststore.location=.*none.pem: No such file or directory \(on .+; the driver and each"
    with pytest.raises(ConfigError, match=told):
        trio.run(ask_leader, options.address, end)
    write_trust(tmp_path / "none.pem", authority())
    options.address.network()
