"""The gateway and bad clients: each harms itself alone."""

from __future__ import annotations

import json
import socket

import pytest

from harness.ports import free_ports
from harness.waiting import WAIT_SECONDS, wait_until
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.kv_quorum import KvQuorum, make_kv_quorum
from tests.kv.gateways import b64

pytestmark = pytest.mark.rotating(3, by_file=True)

BAD_BYTES = {
    "no HTTP": b"\x00\x01\x02 nothing\r\n\r\n",
    "Kafka": b"\x00\x00\x00\x10\x00\x12\x00\x03" + bytes(20),
    "no length": b"POST /v3/kv/put HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    "endless header": b"POST /v3/kv/put HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20_000,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "half a body": b"POST /v3/kv/put HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
    "bad chunk": b"POST /v3/watch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "websocket": b"GET /v3/watch HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
}


@pytest.fixture(scope="module")
def kv(make_module_quorum: MakeQuorum) -> KvQuorum:
    return make_kv_quorum(make_module_quorum, voters=1)


@pytest.mark.parametrize("data", BAD_BYTES.values(), ids=BAD_BYTES)
def test_bad_bytes_end_their_connection_alone(kv: KvQuorum, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", kv.ports[1]), timeout=WAIT_SECONDS) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError:
            pass  # it was reset
    assert kv.post(1, "/v3/kv/put", {"key": b64("a")})[0] == 200
    assert kv.quorum.nodes[1].running


def test_a_request_that_is_too_large_is_refused(kv: KvQuorum) -> None:
    for size, answer in ((1_100_000, 400), (1_000_000, 200)):
        status, content = kv.post(1, "/v3/kv/put", {"key": b64("large"), "value": b64(b"x" * size)})
        assert status == answer, content
    status, content = kv.post(1, "/v3/kv/put", {"key": b64("large"), "value": b64(b"x" * 4_000_000)})
    assert (status, content["message"]) == (400, "etcdserver: request is too large")


def test_a_client_that_does_not_read_holds_up_nobody(make_quorum: MakeQuorum) -> None:
    """Neither the others while the node runs, nor the node's end."""
    kv = make_kv_quorum(make_quorum, voters=1)
    body = json.dumps({"create_request": {"key": b64("a")}})
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", kv.ports[1]))
        connection.sendall(f"POST /v3/watch HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        for _ in range(40):
            assert kv.post(1, "/v3/kv/put", {"key": b64("a"), "value": b64(b"x" * 200_000)})[0] == 200
        assert kv.quorum.nodes[1].stop() == 0


def test_an_address_in_use_is_told(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(voters=1, kraft_state_machine="kv")
    [port] = free_ports(1)
    listener = f"HTTP://127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", port)):
        node = quorum.nodes[1]
        node.start([f"kraft.kv.listener={listener}"])
        assert node.wait() == 1
    assert f"kraft.kv.listener={listener}: cannot be bound: Address already in use" in node.log_text()
    node.start([f"kraft.kv.listener={listener}"])
    wait_until("the gateway listens", lambda: '"listener": "kv"' in node.log_text())
    assert node.stop() == 0
