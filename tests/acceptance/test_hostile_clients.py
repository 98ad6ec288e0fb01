"""What strangers say, wherever a client may say something, neither forges nor floods what a node tells of them."""

from __future__ import annotations

import json
import re
import socket
import struct
from pathlib import Path
from uuid import UUID

import pytest

from harness.node import NodeProcess
from harness.ports import free_ports
from harness.quorum import NO_TOPIC_ID, Quorum
from harness.raw_connection import RawConnection
from harness.waiting import wait_until
from kraft_trio.config.jaas import PLAIN_MODULE
from kraft_trio.config.values import STANDARD_AUTHORIZER
from kraft_trio.protocol.types import Endpoint, Endpoints, VersionRange
from kraft_trio.storage.batches.batch import NewRecord, encode_batch
from kraft_trio.tracing.event_feed import KINDS
from kraft_trio.tracing.files import open_trace
from kraft_trio.wire.api import (
    ADD_RAFT_VOTER,
    API_VERSIONS,
    METADATA,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    UPDATE_RAFT_VOTER,
)
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataTopic
from kraft_trio.wire.apis.produce import ProducePartition, ProduceRequest
from kraft_trio.wire.apis.sasl_authenticate import SaslAuthenticateRequest
from kraft_trio.wire.apis.sasl_handshake import SaslHandshakeRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.codec import encode_request
from tests.acceptance.conftest import MakeQuorum

FORGED = "\r\n2026-01-01T00:00:00 [info     ] forged\x1b[2J\x1b]0;owned\x07\u202e\x9b31m\u2028id: 1\nevent: forged\n\n"
HOSTILE = FORGED + "x" * 20_000
LONGEST_LINE = 6_000
START = {"console": re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+ \["), "json": re.compile(r"\{")}
ADDRESS = Endpoints({"CONTROLLER": Endpoint(FORGED, 1)})


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_nothing_a_client_says_is_told_as_it_stands(make_quorum: MakeQuorum, log_format: str, tmp_path: Path) -> None:
    quorum, client, http = quorum_with_listeners(make_quorum)
    node = quorum.nodes[1]
    node.log_format = log_format
    trace = tmp_path / "trace"
    node.start(options=["--trace", str(trace)])
    node.wait_until_listening()
    quorum.leader()
    say_everything(node, client, http, quorum.cluster_id)
    wait_until("the last word is logged", lambda: "User:reader" in node.log_text())
    wait_until("the voter that nobody reaches is given up", lambda: "forged" in node.log_text())
    events = asked(http, "/v1/events", until=b"event: role")
    quorum.produce(["still committing"])
    node.stop()
    assert_sound(node.log.read_text(), START[log_format])
    assert set(re.findall(rb"^event: (.*)$", events, re.MULTILINE)) <= {kind.encode() for kind in KINDS.values()}
    for data in re.findall(rb"^data: (.*)$", events, re.MULTILINE):
        json.loads(data)
    with open_trace(trace) as (_, found):
        for event in found:
            assert str(event).isprintable(), event


def quorum_with_listeners(make_quorum: MakeQuorum) -> tuple[Quorum, Endpoint, Endpoint]:
    """One voter, a listener with PLAIN for clients, and one for HTTP."""
    client, http = (Endpoint("127.0.0.1", port) for port in free_ports(2))
    quorum: Quorum = make_quorum(1, is_steady=True)
    node = quorum.nodes[1]
    controller = f"listeners=CONTROLLER://{node.endpoint}"
    lines = [
        node.properties.read_text().replace(controller, f"{controller},CLIENT://{client}"),
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN",
        f'plain.sasl.jaas.config={PLAIN_MODULE} required user_reader="x";',
        f"authorizer.class.name={STANDARD_AUTHORIZER}",
        "super.users=User:ANONYMOUS",
        f"kraft.http.listener=HTTP://{http}",
        "connection.failed.authentication.delay.ms=0",
    ]
    node.properties.write_text("\n".join(lines) + "\n")
    return quorum, client, http


def say_everything(node: NodeProcess, client: Endpoint, http: Endpoint, cluster_id: str) -> None:
    """The user of the last request is `reader`."""
    hostile = HOSTILE.encode()
    batch = encode_batch([NewRecord(hostile[:500], hostile[:500], ((FORGED, hostile[:500]),))], timestamp_ms=0)
    for sent in (
        encode_request(API_VERSIONS, 3, 1, HOSTILE, ApiVersionsRequest(HOSTILE, HOSTILE)),
        encode_request(METADATA, 12, 1, HOSTILE, MetadataRequest((MetadataTopic(HOSTILE),))),
        encode_request(
            PRODUCE, 9, 1, HOSTILE, ProduceRequest(-1, 1000, (ProducePartition(FORGED, NO_TOPIC_ID, 0, batch),))
        ),
        encode_request(ADD_RAFT_VOTER, 0, 1, HOSTILE, AddRaftVoterRequest(cluster_id, 50, 7, UUID(int=7), ADDRESS)),
        encode_request(ADD_RAFT_VOTER, 0, 1, HOSTILE, AddRaftVoterRequest(HOSTILE, 50, 7, UUID(int=7), ADDRESS)),
        encode_request(
            UPDATE_RAFT_VOTER,
            0,
            1,
            FORGED,
            UpdateRaftVoterRequest(cluster_id, 1, 1, UUID(int=7), ADDRESS, VersionRange(0, 1)),
        ),
        struct.pack(">ihhih", 8 + 2 + len(hostile), 18, 3, 1, len(hostile)) + b"\xff\x1b[2J\n" + hostile[5:],
        struct.pack(">i", 10) + b"\x00\x63" + b"\x1b[2J\n" * 2,
    ):
        with RawConnection(node.endpoint) as connection:
            connection.send_bytes(sent)
            connection.end_sending()
            while not connection.is_closed_by_peer():
                pass
    for token in (f"\0{FORGED}\0x", f"{FORGED}\0reader\0x", "\0reader\0" + HOSTILE):
        log_in(client, token)
    log_in(client, f"\0{FORGED}\0x", mechanism=FORGED)
    for path in (
        "/" + "%0a%1b[2J" * 500,
        "/v1/quorum?" + "\x1b[2J" * 100,
        "/\x9b31m",
        "/livez HTTP/1.1\r\nX: \x1b[2J\r\nY",
    ):
        asked(http, path)
    log_in(client, "\0reader\0x", and_then=True)


def log_in(endpoint: Endpoint, token: str, *, mechanism: str = "PLAIN", and_then: bool = False) -> None:
    with RawConnection(endpoint) as connection:
        connection.request(SASL_HANDSHAKE, SaslHandshakeRequest(mechanism))
        if mechanism == "PLAIN":
            connection.request(SASL_AUTHENTICATE, SaslAuthenticateRequest(token.encode()))
        if and_then:
            connection.request(METADATA, MetadataRequest((MetadataTopic(FORGED),)))
            batch = encode_batch([NewRecord(b"x")], timestamp_ms=0)
            connection.request(PRODUCE, ProduceRequest(-1, 1000, (ProducePartition(FORGED, NO_TOPIC_ID, 0, batch),)), 9)


def asked(endpoint: Endpoint, path: str, until: bytes | None = None) -> bytes:
    """The response, up to what is awaited, or else to its end."""
    received = b""
    with socket.create_connection((endpoint.host, endpoint.port), timeout=30) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {FORGED[2:10]}\r\nConnection: close\r\n\r\n".encode())
        while piece := connection.recv(65536):
            received += piece
            if until is not None and until in received:
                break
    return received


def assert_sound(log: str, start: re.Pattern[str]) -> None:
    """Each line is one of ours, bounded, and without control characters."""
    lines = log.split("\n")
    assert any("forged" in line for line in lines), "the test has sent nothing that is logged"
    for line in lines:
        assert not line or line.startswith("--- ") or start.match(line), line
        assert line.isprintable(), line
        assert len(line) <= LONGEST_LINE, line
        if line.startswith("{"):
            json.loads(line)
