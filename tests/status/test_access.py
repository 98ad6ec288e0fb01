"""Who may use the HTTP listener, and that nobody can keep others out."""

from __future__ import annotations

import base64
import ssl
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import structlog.testing
import trio

from kraft_trio import NodeConfig
from kraft_trio.config import parse_config
from kraft_trio.config.sasl_fields import SCRAM_SHA_256, SCRAM_SHA_512
from kraft_trio.config.secret import Secret
from kraft_trio.config.tls_fields import TlsFields
from kraft_trio.errors import ConfigError
from kraft_trio.security import http_users
from kraft_trio.security.http_users import HttpUsers
from kraft_trio.security.scram_credential import ScramCredential
from kraft_trio.security.scram_file import add_to_scram_file
from kraft_trio.security.watched_files import reload_all
from kraft_trio.status import app
from kraft_trio.status.app import Turns
from kraft_trio.status.health import Check
from tests.status.test_listener import Answer, Served, request, serving
from tests.support.certificates import authority, client_of, foreign_authority, issue, write_store, write_trust

PASSWORD = "correct horse"
LOCALHOST = "127.0.0.1"


def write_user(path: Path, name: str = "operator", password: str = PASSWORD, mechanism: str = SCRAM_SHA_256) -> Path:
    add_to_scram_file(str(path), [ScramCredential.of_password(name, mechanism, Secret(password))])
    return path


def basic(name: str, password: str) -> str:
    return f"Authorization: Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}\r\n"


def failures(served: Served) -> float | str:
    return served.node.metrics.values()["number-of-failed-authentications"]


# Basic authentication


async def test_password_of_a_user_is_asked_for(tmp_path: Path) -> None:
    users = write_user(tmp_path / "users")
    async with serving(tmp_path, http_users_file=str(users), failed_authentication_delay_ms=0) as served:
        for path in ("/", "/metrics", "/v1/quorum", "/v1/events", "/readyz?verbose", "/nothing"):
            answer = await served.get(path)
            assert answer.status == 401
            assert 'www-authenticate: basic realm="kraft"' in answer.head
        assert failures(served) == 0
        assert (await served.get("/livez")).status == 200
        for _ in range(2):
            assert (await served.get("/metrics", basic("operator", PASSWORD))).status == 200
        wrong = [
            basic("operator", "wrong"),
            basic("nobody", PASSWORD),
            basic("operator", ""),
            "Authorization: Basic %\r\n",
        ]
        wrong += ["Authorization: Bearer x\r\n", basic("operator", PASSWORD + "x" * 2000), basic("", "")]
        with structlog.testing.capture_logs() as lines:
            for header in wrong:
                assert (await served.get("/metrics", header)).status == 401
        assert failures(served) == len(wrong)
        denied = [line for line in lines if line["event"] == "request denied"]
        assert len(denied) == len(wrong)
        assert all(line["peer"] == LOCALHOST for line in denied)
        assert PASSWORD not in str(lines)


async def test_a_probe_is_told_the_status_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason may name directories of the machine and addresses of other nodes."""
    checks = (Check("leader-known"), Check("log-directory-writable", "/var/lib/kraft cannot be written"))
    monkeypatch.setattr(app, "readiness", lambda _tree, _disk: checks)
    users = write_user(tmp_path / "users")
    async with serving(tmp_path, http_users_file=str(users), failed_authentication_delay_ms=0) as served:
        answer = await served.get("/readyz")
        assert (answer.status, answer.content) == (503, b"failed\n")
        assert (await served.get("/livez")).content == b"ok\n"
        answer = await served.get("/readyz?verbose", basic("operator", PASSWORD))
        assert answer.status == 503
        assert "/var/lib/kraft cannot be written" in answer.content.decode()


async def test_users_are_read_again(tmp_path: Path) -> None:
    users = write_user(tmp_path / "users")
    async with serving(tmp_path, http_users_file=str(users), failed_authentication_delay_ms=0) as served:
        assert (await served.get("/metrics", basic("operator", PASSWORD))).status == 200
        write_user(users, password="another one")
        write_user(users, "second", "of another mechanism", SCRAM_SHA_512)
        assert (await served.get("/metrics", basic("operator", PASSWORD))).status == 401
        assert (await served.get("/metrics", basic("operator", "another one"))).status == 200
        assert (await served.get("/metrics", basic("second", "of another mechanism"))).status == 200
        users.write_text("half a li")
        with structlog.testing.capture_logs() as lines:
            reload_all(served.node.tree.security_files)
        assert [line["event"] for line in lines] == ["changed SCRAM users not used"]
        assert (await served.get("/metrics", basic("operator", "another one"))).status == 200


async def test_every_name_costs_the_same_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = HttpUsers(str(write_user(tmp_path / "users")))
    hashed: list[str] = []
    original = http_users._hashed

    def counted(credential: ScramCredential, password: Secret) -> ScramCredential | None:
        hashed.append(credential.mechanism)
        return original(credential, password)

    monkeypatch.setattr(http_users, "_hashed", counted)
    for name, password, expected in (
        ("operator", "wrong", False),
        ("nobody", "wrong", False),
        ("operator", PASSWORD, True),
    ):
        assert await users.fits(name, Secret(password)) is expected
        assert len(hashed) == 1
        hashed.clear()
    assert await users.fits("operator", Secret(PASSWORD))
    assert not hashed, "a password that fitted is remembered"
    assert not await users.fits("operator", Secret("wrong"))
    assert len(hashed) == 1


async def test_wrong_password_is_answered_late(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    users = HttpUsers(str(write_user(tmp_path / "users")))
    answered: list[int] = []

    class Request:
        has_client_certificate, path, query, peer_host = False, "/metrics", "", "h"

        def header(self, name: bytes) -> bytes | None:
            return basic("operator", "wrong").removeprefix("Authorization: ").strip().encode()

        async def respond(
            self, status: int, content: bytes, content_type: bytes = b"", *, headers: bytes = b""
        ) -> None:
            answered.append(status)

    async def inner(exchange: object) -> None:
        raise AssertionError

    endpoint = http_users.AuthenticatedEndpoint(inner, users, 3.0, lambda: None, str.encode)
    began_s = trio.current_time()
    await endpoint(Request())  # type: ignore[arg-type]
    assert answered == [401]
    assert trio.current_time() - began_s >= 3


def test_missing_users_and_passwords_in_the_clear(tmp_path: Path) -> None:
    keys = {"node.id": "1", "listeners": "CONTROLLER://h:1", "metadata.log.dir": "d"}
    keys |= {"controller.quorum.bootstrap.servers": "h:1", "kraft.http.users.file": str(tmp_path / "users")}
    with pytest.raises(ConfigError, match=r"kraft\.http\.users\.file=.*: needs kraft\.http\.listener"):
        parse_config(keys)
    loaded = parse_config({**keys, "kraft.http.listener": "HTTP://h:2"})
    assert [warning for warning in loaded.warnings if "in the clear" in warning]
    assert not [w for w in parse_config({**keys, "kraft.http.listener": "https://h:2"}).warnings if "clear" in w]
    with pytest.raises(ConfigError, match="users: No such file"):
        HttpUsers(str(tmp_path / "users"))


# HTTPS


def tls_of(directory: Path, client_auth: str = "none") -> TlsFields:
    return TlsFields(
        keystore_location=str(write_store(directory / "http.pem", issue(authority(), "http"))),
        truststore_location=str(write_trust(directory / "authority.pem", authority())),
        client_auth=client_auth,
    )


async def get_over_tls(served: Served, path: str, context: ssl.SSLContext, headers: str = "") -> Answer:
    stream = trio.SSLStream(await served.connect(), context, server_hostname="localhost", https_compatible=True)
    async with stream:
        await stream.send_all(request(path, f"Connection: close\r\n{headers}"))
        answer = b"".join([data async for data in stream])
    head, _, content = answer.partition(b"\r\n\r\n")
    return Answer(int(head.split()[1]), head.decode().lower(), content)


async def test_https_with_the_keys_of_its_listener(tmp_path: Path) -> None:
    """The certificate is replaced while the node runs, and its expiry is in the metrics."""
    async with serving(tmp_path, "HTTPS", listener_tls={"HTTPS": tls_of(tmp_path)}) as served:
        assert (await get_over_tls(served, "/livez", client_of(None))).content == b"ok\n"
        metrics = (await get_over_tls(served, "/metrics", client_of(None))).content
        assert b'kraft_certificate_expiry_timestamp_seconds{listener="HTTPS"' in metrics
        with pytest.raises(trio.BrokenResourceError):
            await get_over_tls(served, "/livez", client_of(None, foreign_authority()))
        write_store(tmp_path / "http.pem", issue(foreign_authority(), "renewed"))
        reload_all(served.node.tree.security_files)
        assert (await get_over_tls(served, "/livez", client_of(None, foreign_authority()))).status == 200
        async with await served.connect() as stream:
            await stream.send_all(request("/livez"))
            assert not (await stream.receive_some()).startswith(b"HTTP/1.1 200")
        with trio.fail_after(30):
            while served.node.metrics.values()["number-of-failed-tls-handshakes"] != 2:
                await trio.lowlevel.checkpoint()


async def test_https_asks_for_certificates(tmp_path: Path) -> None:
    async with serving(tmp_path, "HTTPS", tls=tls_of(tmp_path, "required")) as served:
        assert (await get_over_tls(served, "/livez", client_of(issue(authority(), "operator")))).status == 200
        for stranger in (client_of(None), client_of(issue(foreign_authority(), "operator"))):
            with pytest.raises((trio.BrokenResourceError, ValueError, IndexError)):
                await get_over_tls(served, "/livez", stranger)


async def test_certificate_or_password(tmp_path: Path) -> None:
    users = write_user(tmp_path / "users")
    listener_tls = {"HTTPS": tls_of(tmp_path, "requested")}
    async with serving(tmp_path, "HTTPS", listener_tls=listener_tls, http_users_file=str(users)) as served:
        known, unknown = client_of(issue(authority(), "operator")), client_of(None)
        assert (await get_over_tls(served, "/metrics", known)).status == 200
        assert (await get_over_tls(served, "/metrics", unknown)).status == 401
        assert (await get_over_tls(served, "/metrics", unknown, basic("operator", PASSWORD))).status == 200


def test_https_needs_a_key_store(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
            async with serving(tmp_path, "HTTPS"):
                pass

    trio.run(main)


def test_keys_of_https_come_from_its_prefix() -> None:
    keys = {
        "node.id": "1",
        "listeners": "CONTROLLER://h:1",
        "metadata.log.dir": "d",
        "kraft.http.listener": "HTTPS://h:2",
    }
    config = NodeConfig.from_mapping({**keys, "listener.name.https.ssl.client.auth": "requested"})
    assert config.https is not None
    assert config.https.client_auth == "requested"
    assert NodeConfig.from_mapping({**keys, "kraft.http.listener": "HTTP://h:2"}).https is None


# Places


async def loris(stack: AsyncExitStack, served: Served, address: str, sent: bytes = b"GET / HTTP/1.1\r\nX: ") -> None:
    """One connection from that address of this machine, whose request never ends."""
    stream = await trio.open_tcp_stream(LOCALHOST, served.port, local_address=address)
    await stack.enter_async_context(stream)
    await stream.send_all(sent)


async def get_from(served: Served, address: str) -> bytes:
    async with await trio.open_tcp_stream(LOCALHOST, served.port, local_address=address) as stream:
        await stream.send_all(request("/livez", "Connection: close\r\n"))
        return b"".join([data async for data in stream])


async def test_slow_loris_keeps_nobody_out(tmp_path: Path) -> None:
    """Neither others nor its own address, however many connections it opens from however many addresses."""
    async with serving(tmp_path, http_request_timeout_ms=10**6) as served, AsyncExitStack() as stack:
        for _ in range(40):
            await loris(stack, served, LOCALHOST)
        assert b"200 OK" in await get_from(served, "127.0.0.2")
        assert b"200 OK" in await get_from(served, LOCALHOST)
        cut = served.node.metrics.values()["number-of-cut-connections"]
        assert cut == 40 + 1 - served.node.config.max_http_connections_per_ip, "each that made room is counted"
        for address in ("127.0.0.3", "127.0.0.4", "127.0.0.5"):
            for _ in range(20):
                await loris(stack, served, address)
        assert b"200 OK" in await get_from(served, "127.0.0.2")


async def test_slow_loris_in_the_handshake_keeps_nobody_out(tmp_path: Path) -> None:
    tls = {"HTTPS": tls_of(tmp_path)}
    limits = {"http_request_timeout_ms": 10**6, "max_http_connections": 6, "max_http_connections_per_ip": 4}
    async with serving(tmp_path, "HTTPS", listener_tls=tls, **limits) as served, AsyncExitStack() as stack:
        for address in ("127.0.0.2", "127.0.0.3"):
            for _ in range(8):
                await loris(stack, served, address, b"\x16\x03\x01")
        assert (await get_over_tls(served, "/livez", client_of(None))).status == 200
        counted = served.node.metrics.values()
        ended = [float(counted[f"number-of-{what}-connections"]) for what in ("cut", "refused")]
        assert sum(ended) == 16 - 5, "those of the 16 that have no place any more"


async def test_address_has_as_many_connections_as_it_may(tmp_path: Path) -> None:
    """Those that read a stream of events are at work, and stay."""
    async with serving(tmp_path, max_http_connections_per_ip=3) as served, AsyncExitStack() as stack:
        for _ in range(3):
            stream = await stack.enter_async_context(await served.connect())
            await stream.send_all(request("/v1/events"))
            assert await stream.receive_some()
        async with await served.connect() as one_too_many:
            assert await one_too_many.receive_some() == b""
        assert served.node.metrics.values()["number-of-refused-connections"] == 1
        assert b"200 OK" in await get_from(served, "127.0.0.2")


async def reader_from(stack: AsyncExitStack, served: Served, address: str, path: str) -> trio.SocketStream:
    """One that has begun to read a stream, or has been refused."""
    stream = await trio.open_tcp_stream(LOCALHOST, served.port, local_address=address)
    await stack.enter_async_context(stream)
    await stream.send_all(request(path))
    return stream


async def first_line(stream: trio.SocketStream) -> bytes:
    return bytes(await stream.receive_some()).partition(b"\r\n")[0]


@pytest.mark.parametrize("path", ["/v1/events", "/v1/stream"])
async def test_one_address_cannot_take_all_streams(tmp_path: Path, path: str) -> None:
    """The oldest reader of the address with the most makes room.  Then nobody takes another's place any more."""
    async with serving(tmp_path, max_http_streams=3) as served, AsyncExitStack() as stack:
        greedy = [await reader_from(stack, served, LOCALHOST, path) for _ in range(3)]
        for stream in greedy:
            assert await first_line(stream) == b"HTTP/1.1 200 OK"
        refused = await reader_from(stack, served, LOCALHOST, path)
        assert await first_line(refused) == b"HTTP/1.1 503 Service Unavailable"
        other = await reader_from(stack, served, "127.0.0.2", path)
        assert await first_line(other) == b"HTTP/1.1 200 OK"
        while await greedy[0].receive_some():
            pass
        for address in (LOCALHOST, "127.0.0.2"):
            refused = await reader_from(stack, served, address, path)
            assert await first_line(refused) == b"HTTP/1.1 503 Service Unavailable"
        assert served.node.metrics.values()["number-of-refused-streams"] == 4


async def test_places_of_streams_are_free_again(tmp_path: Path) -> None:
    async with serving(tmp_path, max_http_streams=1) as served, AsyncExitStack() as stack:
        for _ in range(3):
            stream = await reader_from(stack, served, LOCALHOST, "/v1/events")
            assert await first_line(stream) == b"HTTP/1.1 200 OK"
            await stream.send_eof()
            while await stream.receive_some():
                pass


async def test_clients_that_are_too_slow_are_cut(tmp_path: Path) -> None:
    limits = {"http_request_timeout_ms": 1, "http_idle_timeout_ms": 1}
    async with serving(tmp_path, **limits) as served, AsyncExitStack() as stack:
        idle = await stack.enter_async_context(await served.connect())
        assert await idle.receive_some() == b""
        slow = await stack.enter_async_context(await served.connect())
        await slow.send_all(b"GET / HT")
        assert (await slow.receive_some()).startswith(b"HTTP/1.1 408 ")
        assert served.node.metrics.values()["number-of-cut-connections"] == 2


async def test_client_that_sends_no_body_is_cut(tmp_path: Path) -> None:
    async with serving(tmp_path, http_request_timeout_ms=1) as served, await served.connect() as slow:
        await slow.send_all(request("/livez", "Content-Length: 5\r\n"))
        assert (await slow.receive_some()).startswith(b"HTTP/1.1 408 ")
        assert served.node.metrics.values()["number-of-cut-connections"] == 1


async def test_client_that_takes_too_long_for_its_handshake_is_cut(tmp_path: Path) -> None:
    tls = {"HTTPS": tls_of(tmp_path)}
    async with serving(tmp_path, "HTTPS", listener_tls=tls, http_request_timeout_ms=1) as served:
        async with await served.connect() as slow:
            await slow.send_all(b"\x16\x03\x01")
            assert await slow.receive_some() == b""
        assert served.node.metrics.values()["number-of-cut-connections"] == 1


@pytest.mark.parametrize(("has_users", "status"), [(True, 401), (False, 404)])
async def test_refused_requests_wait_for_their_turn_too(
    has_users: bool, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = 0
    wait = Turns.wait

    async def counted(self: Turns) -> None:
        nonlocal waits
        waits += 1
        await wait(self)

    monkeypatch.setattr(Turns, "wait", counted)
    file = str(write_user(tmp_path / "users")) if has_users else ""
    async with serving(tmp_path, http_users_file=file) as served:
        assert (await served.get("/nothing")).status == status
    assert waits == 1
