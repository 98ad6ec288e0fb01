"""Reading a node's configuration: what is taken, what is warned about, what is refused and in which words."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
import pytest
import structlog.testing

from kraft_trio.config import KEYS, NodeConfig, load_config, node_config, parse_config
from kraft_trio.config.properties import VARIABLES_OF_COMMANDS, environment_variable, without_variables
from kraft_trio.config.values import STATUS_LISTENER, SUPER_USERS, NamedListener, StaticVoter, parse_endpoint
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint

MINIMAL = {
    "node.id": "1",
    "listeners": "CONTROLLER://localhost:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "metadata.log.dir": "/var/lib/kraft",
}


def config_of(**changes: str) -> NodeConfig:
    properties = {**MINIMAL, **{name.replace("_", "."): text for name, text in changes.items()}}
    return parse_config(properties).config


def test_a_minimal_file_has_kafkas_defaults() -> None:
    config = config_of()
    assert config.process_roles == ("controller",)
    assert config.controller_listener_names == ("CONTROLLER",)
    assert (config.election_timeout_ms, config.fetch_timeout_ms, config.election_backoff_max_ms) == (1000, 2000, 1000)
    assert (config.append_linger_ms, config.request_timeout_ms, config.retry_backoff_ms) == (0, 2000, 20)
    assert (config.segment_bytes, config.segment_ms) == (1 << 30, 7 * 86_400_000)
    assert (config.max_message_bytes, config.max_request_bytes) == (1048588, 104857600)
    assert (config.topic_name, config.topic_id) == ("__cluster_metadata", UUID(int=1))


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("node.id", "0", "node_id", 0),
        ("node.id", " 7 ", "node_id", 7),
        ("process.roles", "broker,controller", "process_roles", ("broker", "controller")),
        ("listeners", "controller://[::1]:9", "listeners", (NamedListener("CONTROLLER", Endpoint("::1", 9)),)),
        ("listeners", "CONTROLLER://:9093", "listeners", (NamedListener("CONTROLLER", Endpoint("", 9093)),)),
        (
            "controller.quorum.voters",
            "1@a:1, 2@b:2",
            "quorum_voters",
            (StaticVoter(1, Endpoint("a", 1)), StaticVoter(2, Endpoint("b", 2))),
        ),
        ("controller.quorum.voters", "", "quorum_voters", ()),
        (
            "controller.quorum.bootstrap.servers",
            "a:1,[fe80::1]:2",
            "quorum_bootstrap_servers",
            (Endpoint("a", 1), Endpoint("fe80::1", 2)),
        ),
        ("controller.quorum.election.timeout.ms", "1500", "election_timeout_ms", 1500),
        ("controller.quorum.fetch.timeout.ms", "1501", "fetch_timeout_ms", 1501),
        ("controller.quorum.election.backoff.max.ms", "902", "election_backoff_max_ms", 902),
        ("controller.quorum.append.linger.ms", "0", "append_linger_ms", 0),
        ("controller.quorum.request.timeout.ms", "903", "request_timeout_ms", 903),
        ("controller.quorum.retry.backoff.ms", "21", "retry_backoff_ms", 21),
        ("controller.quorum.fetch.max.bytes", "1", "fetch_max_bytes", 1),
        ("controller.quorum.fetch.snapshot.max.bytes", "1", "fetch_snapshot_max_bytes", 1),
        ("metadata.log.max.record.bytes.between.snapshots", "1", "snapshot_max_new_bytes", 1),
        ("metadata.log.max.snapshot.interval.ms", "0", "snapshot_interval_ms", 0),
        ("metadata.max.retention.bytes", "-1", "retention_bytes", -1),
        ("metadata.max.retention.ms", "-1", "retention_ms", -1),
        ("metadata.log.segment.bytes", "1024", "segment_bytes", 1024),
        ("metadata.log.segment.ms", str(2**63 - 1), "segment_ms", 2**63 - 1),
        ("message.max.bytes", "16711680", "max_message_bytes", 16711680),
        ("socket.request.max.bytes", "2147483647", "max_request_bytes", 2147483647),
        ("kraft.initial.request.max.bytes", "100", "initial_request_bytes", 100),
        ("kraft.decompressed.max.bytes", "5", "max_decompressed_bytes", 5),
        ("max.connections", "6", "max_connections", 6),
        ("kraft.shutdown.grace.ms", "0", "shutdown_grace_ms", 0),
        ("kraft.topic.name", "__raft_performance_test", "topic_name", "__raft_performance_test"),
        ("kraft.topic.id", "AAAAAAAAAAAAAAAAAAAAAg", "topic_id", UUID(int=2)),
        (
            "listener.security.protocol.map",
            "controller:plaintext",
            "security_protocol_map",
            (("CONTROLLER", "PLAINTEXT"),),
        ),
    ],
)
def test_a_key_sets_its_field(key: str, text: str, field: str, value: object) -> None:
    loaded = parse_config({**MINIMAL, key: text})
    assert getattr(loaded.config, field) == value
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("node.id", "-1", "node.id=-1; expected a whole number from 0 to 2147483647"),
        ("node.id", "2147483648", "node.id=2147483648; expected a whole number from 0 to 2147483647"),
        ("node.id", "one", "node.id=one; expected a whole number"),
        ("node.id", "1_0", "node.id=1_0; expected a whole number"),
        ("node.id", "9" * 6000, "expected a whole number"),
        ("node.id", "", "node.id=; expected a whole number"),
        ("process.roles", "leader", "process.roles=leader; expected controller, broker, or both"),
        ("process.roles", "", "process.roles=; expected controller, broker, or both"),
        ("process.roles", "broker,broker", "process.roles=broker,broker; expected controller"),
        ("listeners", "localhost:9093", "listeners=localhost:9093: 'localhost:9093' is not NAME://host:port"),
        ("listeners", "CONTROLLER://localhost", "has no port"),
        ("listeners", "CONTROLLER://h:0", "the port is '0', not a number from 1 to 65535"),
        ("listeners", "CONTROLLER://h:65536", "the port is '65536'"),
        ("listeners", "CONTROLLER://::1:9093", "an IPv6 address is written in brackets"),
        ("listeners", "CONTROLLER://a b:1", "'a b' is not a host name or address"),
        ("listeners", "CONTROLLER://a:1,,B://a:2", "an entry between two commas is empty"),
        ("listeners", "CONTROLLER://a:1,CONTROLLER://a:2", "a listener name is given twice"),
        ("listeners", "CONTROLLER://a:1,B://a:1", "two listeners have the same address"),
        ("listeners", "CLIENT://a:1", "a node with the controller role needs the listener CONTROLLER://host:port"),
        ("listeners", "CONTROLLER://0.0.0.0:1", "set advertised.listeners"),
        ("advertised.listeners", "CONTROLLER://0.0.0.0:1", "0.0.0.0 means every interface"),
        ("advertised.listeners", "CONTROLLER://:1", "has no host"),
        ("controller.quorum.bootstrap.servers", "B://a:1", "'B://a:1': host:port expected, without the name of the"),
        ("advertised.listeners", "OTHER://a:1", "OTHER is not among the listeners"),
        ("kraft.kv.listener", "HTTP://a:1", "needs kraft.state.machine=kv, on all nodes"),
        ("kraft.kv.listener", "HTTPS://a:1", "'HTTPS://a:1' does not begin with HTTP://"),
        ("kraft.kv.advertised.listener", "HTTP://:1", "has no host"),
        ("controller.listener.names", "", "controller.listener.names=: at least one listener name is needed"),
        ("controller.quorum.voters", "1@a:1,1@b:2", "a voter id is given twice"),
        ("controller.quorum.voters", "a:1", "'a:1' is not id@host:port"),
        ("controller.quorum.voters", "x@a:1", "'x' is not a replica id"),
        ("controller.quorum.voters", "2@a:1,3@b:1", "node.id=1 is not among them"),
        ("controller.quorum.bootstrap.servers", "a", "'a' has no port"),
        ("metadata.log.dir", "", "metadata.log.dir=; expected the path of a directory"),
        ("controller.quorum.election.timeout.ms", "19", "expected a whole number from 20"),
        ("controller.quorum.request.timeout.ms", "19", "expected a whole number from 20"),
        ("controller.quorum.retry.backoff.ms", "2000", "less than controller.quorum.fetch.timeout.ms=2000"),
        ("controller.quorum.retry.backoff.ms", "1000", "less than controller.quorum.election.timeout.ms=1000"),
        (
            "message.max.bytes",
            "16711681",
            "queued.max.request.bytes=67108864: at least 67108868 is needed for requests with message.max.bytes",
        ),
        (
            "message.max.bytes",
            "104857601",
            "a batch that large never fits a request (socket.request.max.bytes=104857600)",
        ),
        ("kraft.initial.request.max.bytes", "104857601", "more than socket.request.max.bytes=104857600"),
        ("kraft.topic.name", "..", "kraft.topic.name=..; expected 1 to 249"),
        ("kraft.topic.name", "a/b", "kraft.topic.name=a/b"),
        ("kraft.topic.id", "AAAA", "'AAAA' is not a UUID as Kafka writes it"),
        ("kraft.topic.id", "AAAAAAAAAAAAAAAAAAAAAA", "the zero id is reserved"),
        (
            "listener.security.protocol.map",
            "CONTROLLER:SSH",
            "'CONTROLLER:SSH': the security protocol is none of PLAINTEXT, SSL",
        ),
    ],
)
def test_a_refusal_names_key_value_and_allowed_values(key: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_config({**MINIMAL, key: text})
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("key", ["node.id", "metadata.log.dir"])
def test_a_key_that_must_be_set(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{key}: not set; expected "):
        parse_config({name: text for name, text in MINIMAL.items() if name != key})


def test_a_value_made_in_code_is_checked_like_one_from_a_file() -> None:
    with pytest.raises(ConfigError, match=r"controller.quorum.fetch.timeout.ms=0; expected a whole number from 20"):
        NodeConfig(node_id=1, process_roles=("broker",), metadata_log_dir="d", fetch_timeout_ms=0)
    with pytest.raises(ConfigError, match=r"^node\.id=True"):
        NodeConfig(node_id=True, process_roles=("broker",), metadata_log_dir="d")


def test_only_a_broker_may_be_outside_the_static_voters() -> None:
    voters = "2@a:1,3@b:1"
    assert config_of(controller_quorum_voters=voters, process_roles="broker").quorum_voters[0].id == 2
    with pytest.raises(ConfigError, match=r"node.id=2 is among them and needs the controller role"):
        config_of(node_id="2", controller_quorum_voters=voters, process_roles="broker")


@pytest.mark.parametrize(
    ("directories", "expected"),
    [
        ({"metadata.log.dir": "/m", "log.dirs": "/a,/b", "log.dir": "/c"}, "/m"),
        ({"log.dirs": " /a , /b", "log.dir": "/c"}, "/a"),
        ({"log.dir": "/c"}, "/c"),
    ],
)
def test_the_directory_is_the_first_that_is_named(directories: dict[str, str], expected: str) -> None:
    rest = {name: text for name, text in MINIMAL.items() if name != "metadata.log.dir"}
    loaded = parse_config({**rest, **directories})
    assert loaded.config.metadata_log_dir == expected
    assert loaded.warnings == ()


def test_each_advertised_listener_falls_back_to_its_listener() -> None:
    config = parse_config(
        {
            **MINIMAL,
            "listeners": "CLIENT://h:1,CONTROLLER://0.0.0.0:2,CONTROLLER_B://h:3",
            "advertised.listeners": "CONTROLLER://public:20",
            "controller.listener.names": "CONTROLLER_B,CONTROLLER",
        }
    ).config
    assert config.controller_listener_name == "CONTROLLER_B"
    assert list(config.advertised_endpoints()) == [
        ("CONTROLLER_B", Endpoint("h", 3)),
        ("CONTROLLER", Endpoint("public", 20)),
        ("CLIENT", Endpoint("h", 1)),
    ]
    assert config.advertised_endpoint("CLIENT") == Endpoint("h", 1)
    assert config.advertised_endpoint("CONTROLLER") == Endpoint("public", 20)
    assert config.advertised_endpoint("OTHER") is None


def test_an_empty_host_is_advertised_as_the_machines_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "machine")
    config = config_of(listeners="CONTROLLER://:9093")
    assert config.listeners[0].endpoint == Endpoint("", 9093)
    assert config.advertised_endpoints().get("CONTROLLER") == Endpoint("machine", 9093)


def test_static_voters_have_only_the_default_listener() -> None:
    voters = config_of(controller_quorum_voters="2@b:2,1@a:1").static_voter_set()
    assert voters.ids == (1, 2)
    assert {voter.key.directory_id for voter in voters} == {NO_DIRECTORY_ID}
    assert [list(voter.endpoints) for voter in voters] == [
        [("CONTROLLER", Endpoint("a", 1))],
        [("CONTROLLER", Endpoint("b", 2))],
    ]
    assert all((voter.kraft_versions.minimum, voter.kraft_versions.maximum) == (0, 0) for voter in voters)


@pytest.mark.parametrize(
    ("key", "warning"),
    [
        ("node.ids", "node.ids: unknown key, ignored; the nearest known one is node.id"),
        (
            "controller.quorum.fetch.timout.ms",
            "controller.quorum.fetch.timout.ms: unknown key, ignored; "
            "the nearest known one is controller.quorum.fetch.timeout.ms",
        ),
        ("log.dirss", "log.dirss: unknown key, ignored; the nearest known one is log.dirs"),
        ("num.io.threads", "num.io.threads: a Kafka key that kraft does not use"),
    ],
)
def test_an_unknown_key_is_warned_about_by_name(key: str, warning: str) -> None:
    assert parse_config({**MINIMAL, key: "1"}).warnings == (warning,)


@pytest.mark.parametrize(
    "of_kafka",
    [
        {"process.roles": "broker", "offsets.topic.replication.factor": "1"},
        {"num.partitions": "1", "num.io.threads": "8"},
        {"process.roles": "broker,controller", "socket.send.buffer.bytes": "1"},
    ],
)
def test_kafkas_own_file_may_have_kafkas_keys(of_kafka: dict[str, str]) -> None:
    """No node starts with it, and whoever else reads it need not be told."""
    assert parse_config({**MINIMAL, **of_kafka}).warnings == ()
    typo = {**MINIMAL, **of_kafka, "log.dirss": "1"}
    assert parse_config(typo).warnings == ("log.dirss: unknown key, ignored; the nearest known one is log.dirs",)
    ours = {**MINIMAL, "kraft.witness": "true", "num.partitions": "1"}
    assert parse_config(ours).warnings == ("num.partitions: a Kafka key that kraft does not use",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kraft.kv.listener": "HTTP://a:1,HTTP://b:1"}, "one address expected"),
        ({"kraft.kv.listener": "HTTP://:1"}, "set kraft.kv.advertised.listener"),
        ({"kraft.kv.listener": "HTTP://localhost:9093"}, "this address is among the listeners"),
        ({"kraft.kv.advertised.listener": "HTTP://a:1"}, "needs kraft.kv.listener"),
    ],
)
def test_the_gateway_needs_one_address_for_clients(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_of(kraft_state_machine="kv", **changes)
    assert config_of(kraft_state_machine="kv", kraft_kv_listener="HTTP://a:1").kv_listener[0].endpoint == Endpoint(
        "a", 1
    )


@pytest.mark.parametrize(
    "key",
    [
        "ssl.provider",
        "sasl.kerberos.service.name",
        "listener.name.controller.ssl.provider",
        "listener.name.client.gssapi.sasl.jaas.config",
        "listener.name.client.principal.builder.class",
        "security.inter.broker.protocol",
    ],
)
def test_security_that_is_not_there_refuses_the_start(key: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: kraft does not support this security key; expected the key not"):
        parse_config({**MINIMAL, key: "SSL"})
    parse_config({**MINIMAL, key: " "})


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("controller.quorum.retry.backoff.ms", "300", "capped at 125, by the fetch and election timeouts"),
        ("controller.quorum.election.backoff.max.ms", "5000", "capped at 1000 after a lost election"),
        ("controller.quorum.request.timeout.ms", "30000", "a Fetch is given up after 1500 ms and a Vote after 1000 ms"),
    ],
)
def test_what_other_timeouts_cap_is_said(key: str, value: str, told: str) -> None:
    (warning,) = parse_config({**MINIMAL, key: value}).warnings
    assert warning.startswith(f"{key}={value}: {told}")
    timeouts = ("controller.quorum.fetch.timeout.ms", "controller.quorum.election.timeout.ms")
    assert parse_config({**MINIMAL, key: value, **dict.fromkeys(timeouts, "60000")}).warnings == ()


def test_a_default_that_shorter_timeouts_cap_is_no_news() -> None:
    assert parse_config({**MINIMAL, "controller.quorum.election.timeout.ms": "100"}).warnings == ()


def test_plaintext_without_security_keys_is_not_refused() -> None:
    parse_config({**MINIMAL, "security.inter.broker.protocol": "plaintext"})


def test_a_node_that_is_told_of_nobody_is_warned() -> None:
    rest = {name: text for name, text in MINIMAL.items() if name != "controller.quorum.bootstrap.servers"}
    (warning,) = parse_config(rest).warnings
    assert "neither controller.quorum.bootstrap.servers nor controller.quorum.voters is set" in warning


def test_every_default_reads_back_as_itself() -> None:
    texts = {key.name: default for key, default in KEYS if default is not None}
    config = parse_config({**texts, **MINIMAL}).config
    assert config == config_of()
    assert len(texts) == len(KEYS) - 2
    assert all(key.meaning and key.kind.allowed for key, _ in KEYS)
    assert all(key.unit == "ms" for key, _ in KEYS if key.name.endswith(".ms"))


class TestFile:
    def write(self, directory: Path, content: bytes) -> Path:
        path = directory / "server.properties"
        path.write_bytes(content)
        return path

    def test_properties_syntax_is_javas(self, tmp_path: Path) -> None:
        path = self.write(
            tmp_path,
            b"# a comment\n! another\nnode.id = 3\nlisteners: \\\n   CONTROLLER://h:1\n"
            b"metadata.log.dir=/d\\u00e9\ncontroller.quorum.bootstrap.servers h:1\n",
        )
        config = load_config(path).config
        assert config.node_id == 3
        assert config.listeners == (NamedListener("CONTROLLER", Endpoint("h", 1)),)
        assert config.metadata_log_dir == "/dé"
        assert config.quorum_bootstrap_servers == (Endpoint("h", 1),)

    def test_overrides_win_and_are_checked(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, b"\n".join(f"{name}={text}".encode() for name, text in MINIMAL.items()))
        assert load_config(path, {"node.id": "9"}).config.node_id == 9
        assert load_config(path).config.node_id == 1
        with pytest.raises(ConfigError, match=r"^node\.id=x; expected"):
            load_config(path, {"node.id": "x"})

    def test_a_repeated_key_is_warned_about_and_the_last_one_counts(self, tmp_path: Path) -> None:
        lines = [f"{name}={text}".encode() for name, text in MINIMAL.items()]
        loaded = load_config(self.write(tmp_path, b"\n".join([*lines, b"node.id=2"])))
        assert loaded.config.node_id == 2
        assert loaded.warnings == ("node.id: given more than once; the last value, '2', is used",)

    def test_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"missing\.properties: cannot be read: No such file"):
            load_config(tmp_path / "missing.properties")
        with pytest.raises(ConfigError, match=r"cannot be read: Is a directory"):
            load_config(tmp_path)

    def test_a_file_that_is_not_properties(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, b"node.id=\\u12\n")
        with pytest.raises(ConfigError, match=r"server\.properties: not a \.properties file"):
            load_config(path)


@pytest.mark.parametrize("text", ["a:1", "[::1]:65535", "10.0.0.1:9093"])
def test_endpoint_text_reads_back(text: str) -> None:
    assert str(parse_endpoint(text)) == text


KEYWORDS: dict[str, Any] = {
    "node_id": 1,
    "listeners": "CONTROLLER://localhost:9093",
    "quorum_bootstrap_servers": ["localhost:9093"],
    "metadata_log_dir": Path("/var/lib/kraft"),
}


def test_keywords_take_texts_and_values() -> None:
    assert NodeConfig(**KEYWORDS) == config_of()
    assert NodeConfig(**{**KEYWORDS, "node_id": "1"}) == config_of()
    listeners = (NamedListener("CONTROLLER", Endpoint("localhost", 9093)),)
    assert NodeConfig(**{**KEYWORDS, "listeners": listeners}) == config_of()


def test_a_mapping_takes_texts_and_values() -> None:
    mapping = {**MINIMAL, "node.id": 1, "metadata.log.dir": Path("/var/lib/kraft"), "kraft.voter.gossip.enable": False}
    assert NodeConfig.from_mapping(mapping) == config_of(kraft_voter_gossip_enable="false")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("node_id", 1.5, "node.id=1.5; expected a whole number from 0 to 2147483647"),
        ("node_id", True, "node.id=True; expected a whole number"),
        ("node_id", None, "node.id=None; expected a whole number"),
        ("voter_gossip", 1, "kraft.voter.gossip.enable=1; expected true or false"),
        ("listeners", 9093, "listeners=9093; expected NAME://host:port"),
        ("listeners", [("a", 1)], r"listeners=\[\('a', 1\)\]; expected NAME://host:port"),
        ("quorum_bootstrap_servers", ["a"], r"bootstrap.servers=\['a'\]: 'a' has no port"),
        ("metadata_log_dir", b"/data", "metadata.log.dir=b'/data'; expected the path of a directory"),
        ("topic_id", 5, "kraft.topic.id=5; expected a UUID"),
        ("topic_name", "a/b", "kraft.topic.name=a/b; expected 1 to 249"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(field: str, value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        NodeConfig(**{**KEYWORDS, field: value})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: NodeConfig.from_mapping("node.id=1"), "properties: str, expected a mapping of texts"),
        (lambda: NodeConfig.from_mapping({1: "node.id"}), "properties: key 1, expected text"),
        (lambda: NodeConfig.from_environment("a.properties"), "variables: str, expected a mapping of texts"),
        (lambda: NodeConfig.from_file(5), "path: 5, expected the path of a .properties file"),
        (lambda: NodeConfig.from_file("a.properties", ["node.id"]), "overrides: list, expected a mapping of texts"),
        (lambda: NodeConfig(node_id=1, metadata_log_dir="data", listener="C://a:1"), "the nearest is listeners"),
        (lambda: NodeConfig(metadata_log_dir="data"), "node_id: not set, but NodeConfig needs it"),
        (lambda: NodeConfig(node_id=1), "metadata_log_dir: not set, but NodeConfig needs it"),
    ],
)
def test_mistaken_arguments_get_a_sentence(make: Callable[..., NodeConfig], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        make()


def test_a_listener_without_an_address_to_announce_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"nobody can connect to 0\.0\.0\.0"):
        NodeConfig(**{**KEYWORDS, "listeners": "CONTROLLER://0.0.0.0:9093"})


VARIABLES = {
    "KRAFT_NODE_ID": "1",
    "KRAFT_LISTENERS": "CONTROLLER://localhost:9093",
    "KRAFT_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "localhost:9093",
    "KRAFT_METADATA_LOG_DIR": "/var/lib/kraft",
}


def test_the_environment_sets_keys() -> None:
    variables = {**VARIABLES, "KRAFT_TOPIC_NAME": "words", "PATH": "/bin"}
    assert NodeConfig.from_environment(variables) == config_of(kraft_topic_name="words")


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "node.properties"
    file.write_text("".join(f"{key}={text}\n" for key, text in {**MINIMAL, "node.id": "5"}.items()))
    assert NodeConfig.from_file(file).node_id == 5
    assert NodeConfig.from_environment({"KRAFT_NODE_ID": "7"}, file=file).node_id == 7


def test_no_two_keys_share_a_variable() -> None:
    names = [environment_variable(key.name) for key, _ in KEYS]
    assert len(set(names)) == len(names)


def test_an_environment_without_ours_configures_nothing() -> None:
    others = {"PATH": "/bin", "KRAFT_PORT": "tcp://10.0.0.1:9093"}
    assert without_variables({**VARIABLES, "KRAFT_CONFIG": "node.properties", **others}) == others


def test_a_mistyped_variable_is_warned_about() -> None:
    with structlog.testing.capture_logs() as lines:
        NodeConfig.from_environment({**VARIABLES, "KRAFT_NODEID": "2"})
    assert [line["reason"] for line in lines] == [
        "KRAFT_NODEID: no such variable, ignored; the nearest known one is KRAFT_NODE_ID"
    ]


@pytest.mark.parametrize("variable", [*sorted(VARIABLES_OF_COMMANDS), "KRAFT_PORT_9093_TCP_ADDR", "KRAFT_SERVICE_HOST"])
def test_a_variable_of_the_commands_or_of_kubernetes_is_no_mistyped_one(variable: str) -> None:
    with structlog.testing.capture_logs() as lines:
        NodeConfig.from_environment({**VARIABLES, variable: "http://127.0.0.1:2379"})
    assert lines == []
    assert variable not in {environment_variable(key.name) for key, _ in KEYS}


def test_type_checkers_know_every_keyword() -> None:
    source = ast.parse(Path(node_config.__file__).read_text())
    told = next(one for one in ast.walk(source) if isinstance(one, ast.FunctionDef) and one.name == "__init__").args
    known = {arg.arg: default is None for arg, default in zip(told.kwonlyargs, told.kw_defaults, strict=True)}
    assert known == {field.name: field.default is attrs.NOTHING for field in attrs.fields(NodeConfig)}


def test_values_of_python_are_read_as_their_texts() -> None:
    """Else a listener that is spelled otherwise would be served in plaintext."""
    fields: dict[str, Any] = {"node_id": 1, "metadata_log_dir": "/d", "quorum_bootstrap_servers": "a:1"}
    listeners = [NamedListener("controller", Endpoint("", 9093))]
    config = NodeConfig(**fields, listeners=listeners, security_protocol_map=[("controller", "ssl")])
    assert config.listeners == (NamedListener("CONTROLLER", Endpoint("", 9093)),)
    assert config.security_protocol_of("CONTROLLER") == "SSL"
    assert SUPER_USERS.take(["User:a", "User:b"]) == SUPER_USERS.take(("User:a", "User:b")) == ("User:a", "User:b")
    assert SUPER_USERS.take([]) == SUPER_USERS.take(()) == ()
    assert STATUS_LISTENER.take([NamedListener("https", Endpoint("", 1))]) == (NamedListener("HTTPS", Endpoint("", 1)),)
    for wrong in (
        {"http_listener": [NamedListener("X", Endpoint("", 1))]},
        {"security_protocol_map": [("CONTROLLER", "TLS")]},
        {"security_protocol_map": [("CONTROLLER",)]},
        {"security_protocol_map": [("CONTROLLER", 1)]},
        {"super_users": ("a",)},
        {"super_users": [1]},
    ):
        with pytest.raises(
            ConfigError, match=r"^(listener\.security\.protocol\.map|super\.users|kraft\.http\.listener)="
        ):
            NodeConfig(**fields, listeners=listeners, **wrong)


def test_security_of_a_listener_with_dots_in_its_name_is_refused() -> None:
    """It would have no effect, because the name ends with the first dot."""
    listeners = "CONTROLLER://localhost:9093,MY.CLIENT://localhost:9094"
    for key in ("ssl.client.auth", "sasl.enabled.mechanisms", "principal.builder.class"):
        name = f"listener.name.my.client.{key}"
        with pytest.raises(ConfigError, match=f"^{name}: kraft does not support this security key"):
            parse_config({**MINIMAL, "listeners": listeners, name: "required"})
    parsed = parse_config({**MINIMAL, "listener.name.ssl.num.network.threads": "3"})
    assert any("listener.name.ssl.num.network.threads" in warning for warning in parsed.warnings)
