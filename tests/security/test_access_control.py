"""What each principal may ask of a node with an authorizer, and how the refusal of each API reads."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import structlog.testing
from hypothesis import given, settings

from kraft_trio.config import NodeConfig, parse_config
from kraft_trio.config.jaas import PLAIN_MODULE
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.errors import ConfigError
from kraft_trio.limits.refusals import Refusals
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.security.access_control import AccessControl
from kraft_trio.security.acl_file import parse_acls
from kraft_trio.security.authorization import ANONYMOUS
from kraft_trio.wire.api import APIS, DESCRIBE_QUORUM, INIT_PRODUCER_ID, METADATA, PRODUCE, Api
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest
from kraft_trio.wire.apis.fetch import FetchRequest
from kraft_trio.wire.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from kraft_trio.wire.apis.init_producer_id import InitProducerIdRequest
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataTopic
from kraft_trio.wire.apis.produce import ProduceRequest
from kraft_trio.wire.apis.replica_snapshots import ReplicaSnapshotsRequest
from kraft_trio.wire.codec import RequestHeader, decode_response, encode_response
from tests.support.access_matrix import (
    ALLOWED,
    CLIENT,
    CLIENTS,
    CONTROLLER,
    CONTROLLERS,
    NOT_SERVED,
    OPERATOR,
    OURS_ONLY,
    PRINCIPALS,
    RULES,
    SUPER_USER,
    outcome_of,
    rows,
    told_by_ours,
)
from tests.support.certificates import authority, issue
from tests.wire.values import VALUES

FORWARDER = "forwarder"
ALLOW_PREFIX = '[[allow]]\nprincipal = "User:client"\noperations = ["WRITE"]\ntopic-prefix = "ord"\n'
READS = '[[allow]]\nprincipal = "User:client"\noperations = ["READ"]\n'
ROWS = rows(UUID(int=1))
WHO = {name: row.allowed for name, row in ROWS.items()} | OURS_ONLY

PARTS = ("partitions", "topics", "resources")


def config_of(file: Path, **more: str) -> NodeConfig:
    keys = {key.replace("_", "."): value for key, value in more.items()}
    return parse_config(
        {
            "node.id": "1",
            "listeners": "CONTROLLER://localhost:9093",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "metadata.log.dir": "/data",
            "kraft.topic.name": "orders",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": SUPER_USER,
            "kraft.acl.file": str(file),
            **keys,
        }
    ).config


def access(directory: Path, rules: str = RULES, **more: str) -> AccessControl:
    file = directory / "acl.toml"
    file.write_text(rules)
    return AccessControl(config_of(file, **more), FORWARDER, Refusals())


@pytest.fixture(scope="module")
def by_rules(tmp_path_factory: pytest.TempPathFactory) -> AccessControl:
    return access(tmp_path_factory.mktemp("rules"))


def asked(
    access: AccessControl,
    api: Api[Any, Any],
    request: Any,
    principal: str,
    client_id: str = "c",
    listener: str = CONTROLLERS,
) -> Any:
    header = RequestHeader(api, api.max_version, 1, client_id)
    return access.refusal(header, listener, request, principal, "10.0.0.1")


def row_of(api: Api[Any, Any], request: Any) -> str:
    if isinstance(request, FetchRequest) and request.replica_id >= 0:
        return "Fetch of a replica"
    if isinstance(request, MetadataRequest) and request.topics == ():
        return "Metadata of no topic"
    if isinstance(request, MetadataRequest) and request.topics is None:
        return "Metadata of all topics"
    if isinstance(request, IncrementalAlterConfigsRequest):
        return "IncrementalAlterConfigs of a node"
    if isinstance(request, ReplicaSnapshotsRequest) and request.take:
        return "ReplicaSnapshots that are taken"
    return api.name


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_each_principal_may_do_what_the_table_says(api: Api[Any, Any], by_rules: AccessControl) -> None:
    @settings(max_examples=10)
    @given(VALUES[api.name, "request"])
    def check(request: Any) -> None:
        allowed = WHO[row_of(api, request)]
        for principal in PRINCIPALS:
            refusal = asked(by_rules, api, request, principal, listener=CLIENTS)
            assert (refusal is None) == (principal in {*allowed, SUPER_USER})
            if refusal is not None:
                check_refusal(api, request, refusal[0])

    check()


@pytest.mark.parametrize("kind", [CLIENTS, CONTROLLERS])
@pytest.mark.parametrize("name", ROWS)
def test_each_kind_of_listener_tells_what_the_table_says(name: str, kind: str, by_rules: AccessControl) -> None:
    row = ROWS[name]
    for principal in PRINCIPALS:
        told = told_by_ours(kind, name, row, principal)
        if told == NOT_SERVED:
            continue
        refusal = asked(by_rules, row.api, row.request, principal, listener=kind)
        assert (ALLOWED if refusal is None else outcome_of(row.request, refusal[0])) == told


def check_refusal(api: Api[Any, Any], request: Any, response: Any) -> None:
    """It arrives in every version.  Only a request about no partition, topic or resource may get no error."""
    if isinstance(request, ProduceRequest) and request.acks == 0:
        assert response is None
        return
    parts = next((getattr(request, name) for name in PARTS if hasattr(request, name)), "the whole request")
    for version in range(api.min_version, api.max_version + 1):
        _, decoded = decode_response(api, version, encode_response(api, version, 1, response)[4:])
        assert "authorization_failed" in repr(decoded) or not parts


def test_a_request_that_a_node_passes_on_has_been_judged_there(by_rules: AccessControl) -> None:
    request = DescribeQuorumRequest("orders")
    assert asked(by_rules, DESCRIBE_QUORUM, request, CONTROLLER) is not None
    assert asked(by_rules, DESCRIBE_QUORUM, request, CONTROLLER, FORWARDER) is None
    assert asked(by_rules, DESCRIBE_QUORUM, request, OPERATOR, FORWARDER) is not None


def test_a_rule_that_denies_wins_over_one_that_allows(tmp_path: Path) -> None:
    deny = '[[deny]]\nprincipal = "User:*"\noperations = ["WRITE"]\ntopic-prefix = "ord"\nhost = "10.0.0.1"\n'
    control = access(tmp_path, RULES + deny)
    refusal = asked(control, PRODUCE, ProduceRequest(-1, 1, ()), CLIENT)
    assert refusal is not None
    assert asked(control, INIT_PRODUCER_ID, InitProducerIdRequest(), CLIENT) is not None
    assert asked(control, PRODUCE, ProduceRequest(-1, 1, ()), SUPER_USER) is None


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ('[[allow]]\nprincipal = "User:b"\noperations = ["ALTER"]\n', True),
        (ALLOW_PREFIX + '[[deny]]\nprincipal = "User:client"\noperations = ["WRITE"]\ntopic = "ord"\n', True),
        (ALLOW_PREFIX + '[[deny]]\nprincipal = "User:client"\noperations = ["WRITE"]\ntopic-prefix = "o"\n', False),
        ('[[allow]]\nprincipal = "User:client"\noperations = ["WRITE"]\ntopic = "*"\n', True),
    ],
    ids=["no rule about topics", "one topic denied", "a shorter prefix denied", "every topic allowed"],
)
def test_a_producer_id_needs_write_on_some_topic(rules: str, is_allowed: bool, tmp_path: Path) -> None:
    about_cluster = '[[allow]]\nprincipal = "User:other"\noperations = ["ALTER"]\n'
    is_open = "topic" not in rules
    control = access(tmp_path, about_cluster + rules, allow_everyone_if_no_acl_found=str(is_open).lower())
    refusal = asked(control, INIT_PRODUCER_ID, InitProducerIdRequest(), CLIENT)
    assert (refusal is None) == is_allowed


def test_a_resource_without_rules_may_be_open(tmp_path: Path) -> None:
    rules = '[[allow]]\nprincipal = "User:client"\noperations = ["ALTER"]\n'
    control = access(tmp_path, rules, allow_everyone_if_no_acl_found="true")
    assert asked(control, METADATA, MetadataRequest(), ANONYMOUS) is None
    assert asked(control, DESCRIBE_QUORUM, DescribeQuorumRequest("orders"), ANONYMOUS) is not None
    assert asked(control, DESCRIBE_QUORUM, DescribeQuorumRequest("orders"), CLIENT) is None  # ALTER implies DESCRIBE


def test_a_refusal_is_logged_with_bounded_text(by_rules: AccessControl) -> None:
    with structlog.testing.capture_logs() as lines:
        asked(by_rules, DESCRIBE_QUORUM, DescribeQuorumRequest("orders"), "User:" + 1000 * "x")
    (line,) = lines
    assert len(line.pop("principal")) == 256
    assert line == {
        "event": "request denied",
        "log_level": "warning",
        "peer": "10.0.0.1",
        "api": "DescribeQuorum",
        "operation": "DESCRIBE",
        "resource": "CLUSTER:kafka-cluster",
        "reason": "no rule allows it",
    }


@pytest.mark.parametrize(
    ("about", "resource"),
    [("", "CLUSTER:kafka-cluster"), ('topic = "orders"', "TOPIC:orders"), ('topic-prefix = "ord"', "TOPIC:ord*")],
)
def test_rule_that_denies_is_named_in_words(about: str, resource: str, tmp_path: Path) -> None:
    control = access(tmp_path, f'[[deny]]\nprincipal = "User:*"\noperations = ["DESCRIBE"]\nhost = "10.0.0.1"\n{about}')
    request: Any = MetadataRequest((MetadataTopic("orders"),)) if about else DescribeQuorumRequest("a")
    with structlog.testing.capture_logs() as lines:
        asked(control, METADATA if about else DESCRIBE_QUORUM, request, CLIENT)
    assert [line["reason"] for line in lines] == [f"DENY User:* DESCRIBE on {resource} from 10.0.0.1"]


def test_changed_rules_are_taken_over_and_bad_ones_are_not(tmp_path: Path) -> None:
    control = access(tmp_path, "")
    request = DescribeQuorumRequest("orders")
    file = tmp_path / "acl.toml"
    outcomes = []
    with structlog.testing.capture_logs() as lines:
        for content in (RULES, "[[allow]]\n", None):
            if content is None:
                file.unlink()
            else:
                file.write_text(content)
            control.files.look()
            control.files.look()
            outcomes.append(asked(control, DESCRIBE_QUORUM, request, OPERATOR))
    assert outcomes == [None, None, None]
    reasons = [line.get("reason", "") for line in lines]
    assert [line["event"] for line in lines] == ["access rules reloaded", *2 * ["changed access rules not used"]]
    assert reasons[1].endswith("acl.toml: [[allow]] number 1: operations is missing")
    assert reasons[2].endswith("acl.toml: No such file or directory")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("[[permit]]", "the file: permit is unknown; expected allow, deny, voter"),
        ("allow = 1", r"allow: expected entries that begin with \[\[allow\]\]"),
        ('[[allow]]\noperations = ["READ"]', "number 1: principal is missing"),
        ('[[allow]]\noperations = ["READ"]\nprincipal = "bob"', "principal='bob'; expected User: and a name"),
        ('[[allow]]\noperations = ["FLY"]\nprincipal = "User:b"', r"operations=\['FLY'\]; expected a list of ALL"),
        (
            '[[allow]]\noperations = [["ALL"]]\nprincipal = "User:b"',
            r"operations=\[\['ALL'\]\]; expected a list of ALL",
        ),
        ('[[deny]]\ntopics = "x"', "topics is unknown; expected host, operations, principal, topic, topic-prefix"),
        ('[[voter]]\nprincipal = "User:b"\nnode-id = "1"', "node-id='1'; expected a node's id"),
        (
            '[[voter]]\nprincipal = "User:b"\nnode-id = 1\ndirectory-id = "x"',
            r"\[\[voter\]\] number 1: directory-id='x' is not a UUID",
        ),
        (f"{READS}host = 'node-1'\ntopic = 'x'", "number 1: host='node-1'; expected an IP address or \\*"),
        (READS, r"number 1: operations=\['READ'\]; READ needs topic or topic-prefix"),
        (READS.replace("READ", "WRITE").replace("allow", "deny"), r"\[\[deny\]\] number 1: .*; WRITE needs topic or"),
        (f"{READS}topic = 'x'".replace("READ", "CLUSTER_ACTION"), "CLUSTER_ACTION needs a rule without a topic"),
        (f"{READS}topic = 'x'".replace("READ", "IDEMPOTENT_WRITE"), "IDEMPOTENT_WRITE needs a rule without a topic"),
        ("[[allow", "kraft.acl.file=.*acl.toml: "),
    ],
)
def test_a_bad_rule_is_named(rules: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        access(tmp_path, rules)


def test_host_of_a_rule_may_be_written_in_several_ways() -> None:
    rules = '[[deny]]\nprincipal = "User:*"\noperations = ["ALL"]\nhost = "FE80:0::1"\n'
    [rule] = parse_acls(rules).rules
    assert rule.host == "fe80::1"


def test_rules_without_an_authorizer_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"super.users=User:admin: would have no effect; set authorizer.class.name"):
        config_of(tmp_path / "acl.toml", authorizer_class_name="")
    with pytest.raises(ConfigError, match=r"authorizer.class.name=MyAuthorizer; expected org.apache.kafka.*, or empty"):
        config_of(tmp_path / "acl.toml", authorizer_class_name="MyAuthorizer")
    with pytest.raises(ConfigError, match=r"super.users=bob: 'bob' does not begin with User:"):
        config_of(tmp_path / "acl.toml", super_users="bob")
    with pytest.raises(ConfigError, match=r"'User:a, User:b' has a comma before User:; expected .* by semicolons"):
        config_of(tmp_path / "acl.toml", super_users="User:a, User:b")
    assert config_of(tmp_path / "acl.toml", super_users="User:CN=a,O=b").super_users == ("User:CN=a,O=b",)


def test_rules_are_read_again_once_the_node_may_read_them(tmp_path: Path) -> None:
    """Root, who may run this test, can read them all the time."""
    control = access(tmp_path)
    with structlog.testing.capture_logs() as lines:
        for mode in (0o000, 0o600):
            (tmp_path / "acl.toml").chmod(mode)
            control.files.look()
    assert len(lines) == 2
    assert lines[1]["event"] == "access rules reloaded"


VOTER = '[[voter]]\nprincipal = "User:node-2"\nnode-id = 2\n'
SECURE = {
    "listener_security_protocol_map": "CONTROLLER:SSL",
    "ssl_principal_mapping_rules": "RULE:^CN=(node-.),.*$/$1/",
}
LOGIN = {
    "listener_security_protocol_map": "CONTROLLER:SASL_SSL",
    "sasl_enabled_mechanisms": "PLAIN",
    "sasl_mechanism_controller_protocol": "PLAIN",
    "sasl_jaas_config": f'{PLAIN_MODULE} required username="node" password="x";',
}


@pytest.mark.parametrize(
    ("name", "rules", "more", "refusal"),
    [
        ("node-2", VOTER, {}, None),
        ("node-3", VOTER, {}, "User:node-3 may not speak for node 2"),
        ("else", VOTER, {}, "no rule of ssl.principal.mapping.rules matches"),
        ("node-3", "", {}, None),
        ("node-3", VOTER, LOGIN, None),
    ],
    ids=["its own", "another", "no principal", "no bindings", "SASL names who it is"],
)
def test_who_may_answer_as_a_voter(
    name: str, rules: str, more: dict[str, str], refusal: str | None, tmp_path: Path
) -> None:
    control = access(tmp_path, rules, **{**SECURE, **more})
    certificate = ssl.PEM_cert_to_DER_cert(issue(authority(), name).cert_chain_pems[0].bytes().decode())
    told = control.refusal_of_server(certificate, ReplicaKey(2))
    assert told is None if refusal is None else refusal in str(told)
    assert control.refusal_of_server(None, ReplicaKey(2)) is None
