"""The HTTP listener of a real node."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from harness.ports import free_ports
from kraft_trio import Node, NodeConfig, VoterSet, first_voter, format_node, open_node, random_uuid, running
from kraft_trio.errors import ConfigError
from kraft_trio.status import explained, health
from kraft_trio.status.server import HEAD_BYTES
from kraft_trio.tracing.event_feed import MAX_TEXT, EventFeed

LIMIT_S = 60


@attrs.frozen
class Answer:
    status: int
    head: str
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


@attrs.frozen
class Served:
    node: Node
    port: int

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    async def get(self, path: str, headers: str = "", method: str = "GET") -> Answer:
        async with await self.connect() as stream:
            await stream.send_all(request(path, f"Connection: close\r\n{headers}", method))
            answer = b"".join([data async for data in stream])
        head, _, content = answer.partition(b"\r\n\r\n")
        return Answer(int(head.split()[1]), head.decode().lower(), content)


def request(path: str, headers: str = "", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n".encode()


@asynccontextmanager
async def serving(directory: Path, scheme: str = "HTTP", **more: Any) -> AsyncIterator[Served]:
    """Serve on all addresses of this machine, so that clients may have several."""
    controller, http = free_ports(2)
    config = NodeConfig(
        **more,
        node_id=1,
        listeners=f"CONTROLLER://127.0.0.1:{controller}",
        controller_listener_names="CONTROLLER",
        metadata_log_dir=directory / "node",
        http_listener=f"{scheme}://0.0.0.0:{http}",
    )
    format_node(config, cluster_id=random_uuid(), voters=VoterSet([first_voter(config)]))
    with trio.fail_after(LIMIT_S):
        async with open_node(config) as node:
            await node.append([b"x"])
            yield Served(node, http)


async def test_what_a_healthy_node_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PROBE_TIMEOUT_S", LIMIT_S)
    monkeypatch.setattr(health, "MIN_FREE_BYTES", 0)
    monkeypatch.setattr(explained, "ANSWER_MS", LIMIT_S * 1000)
    async with serving(tmp_path) as served:
        assert (await served.get("/livez")).content == b"ok\n"
        ready = await served.get("/readyz?verbose")
        assert ready.status == 200
        assert ready.content.decode().splitlines() == [
            "[+]not-failed ok",
            "[+]leader-known ok",
            "[+]high-watermark-known ok",
            "[+]log-directory-writable ok",
            "[+]disk-space ok",
            "readyz check passed",
        ]
        quorum = (await served.get("/v1/quorum")).json()
        assert [claim["nodeId"] for claim in quorum["claims"]] == [1]
        assert [finding["code"] for finding in quorum["findings"]] == ["survival"]
        told = quorum["node"]
        assert (told["role"], told["leaderId"], told["epoch"]) == ("leader", 1, served.node.view.epoch)
        assert told["highWatermark"] == served.node.high_watermark
        assert [voter["lag"] for voter in told["voters"]] == [0]
        assert (await served.get("/v1/nothing")).status == 404
        assert (await served.get("/livez", method="POST")).status == 405
        assert (await served.get("/livez", method="HEAD")).content == b""


async def test_metrics_have_the_format_that_is_asked_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        plain = await served.get("/metrics")
        assert "content-type: text/plain; version=0.0.4" in plain.head
        openmetrics = await served.get("/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n")
        assert "content-type: application/openmetrics-text" in openmetrics.head
        names = {family.name for family in prometheus_families(plain.content.decode())}
        assert "kafka_server_raftmetrics_high_watermark" in names
        assert names == {family.name for family in text_string_to_metric_families(openmetrics.content.decode())}


async def test_metrics_include_those_of_the_application(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        assert served.node.metrics.registry is not None
        openmetrics = await served.get("/metrics", "Accept: application/openmetrics-text\r\n")
        assert openmetrics.content.endswith(b"# EOF\n")


async def test_the_page_needs_nothing_but_this_node(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        page = await served.get("/")
        assert "content-type: text/html" in page.head
        paths = re.findall(r'(?:fetch|EventSource)\("([^"]*)"', page.content.decode())
        assert sorted(paths) == ["v1/explain", "v1/stream"]
        assert (await served.get("/v1/stream", method="HEAD")).status == 200
        situation = json.dumps({"claims": [], "report": None})
        explained = await served.get("/v1/explain", f"Content-Length: {len(situation)}\r\n\r\n{situation}", "POST")
        assert [finding["code"] for finding in explained.json()["findings"]] == ["no-answer"]


async def test_the_page_is_fed_with_what_the_node_and_the_others_tell(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, await served.connect() as stream:
        await stream.send_all(request("/v1/stream"))
        received = b""
        while b"event: history\n" not in received or not received.endswith(b"\n\n\r\n"):
            received += await stream.receive_some()
        board = next(line for line in received.splitlines() if line.startswith(b"data: {"))
        told = json.loads(board.removeprefix(b"data: "))
        assert (told["source"]["nodeId"], told["leaderId"]) == (1, 1)
        [voter] = told["voters"]
        assert voter["vitals"]["freeBytes"] > 0
        assert voter["vitals"]["syncP99Ms"] > 0
        assert b'"role": "Leader"' in received
        await stream.aclose()
        await served.node.append([b"the node works"])


async def test_events_tell_how_the_node_came_to_lead(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, await served.connect() as stream:
        await stream.send_all(request("/v1/events"))
        received = b""
        while b'"role": "Leader"' not in received:
            received += await stream.receive_some()
        assert b"content-type: text/event-stream" in received
        assert b"event: role\n" in received


async def test_a_client_that_does_not_read_events_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = EventFeed(lambda: 0)
    monkeypatch.setattr(running, "EventFeed", lambda clock: feed)
    async with serving(tmp_path) as served, await served.connect() as stream:
        await stream.send_all(request("/v1/events"))
        assert await stream.receive_some(1)
        assert feed.readers == 1
        while feed.readers:
            feed.heard("role", {"reason": "x" * MAX_TEXT})
            await trio.lowlevel.checkpoint()
        await served.node.append([b"the node works"])


async def test_a_node_without_a_leader_is_alive_but_not_ready(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        served.node.election.view.value = attrs.evolve(served.node.view, leader_id=None)
        assert (await served.get("/livez")).status == 200
        ready = await served.get("/readyz")
        assert ready.status == 503
        assert b"[-]leader-known failed: no leader is known in epoch " in ready.content
        assert ready.content.endswith(b"readyz check failed\n")


async def test_a_request_beyond_a_limit_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as served, await served.connect() as stream:
        assert (await served.get("/livez", "Content-Length: 2000\r\n", "POST")).status == 413
        await stream.send_all(b"GET / HTTP/1.1\r\nX: " + bytes(b"x" * 2 * HEAD_BYTES))
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 431 ")


async def test_an_address_in_use_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path / "one") as served:
        config = attrs.evolve(
            served.node.config,
            metadata_log_dir=str(tmp_path / "two"),
            listeners=f"CONTROLLER://127.0.0.1:{free_ports(1)[0]}",
            advertised_listeners=(),
        )
        format_node(config, cluster_id=random_uuid(), voters=VoterSet([first_voter(config)]))
        with pytest.raises(ConfigError, match="cannot be bound"):
            async with open_node(config):
                pass


BROWSER = "Accept-Language: en\r\n"


async def test_foreign_pages_read_nothing(tmp_path: Path) -> None:
    """A rebound name, another origin, and another site.  A scraper may use any name: `request` calls the host `a`."""
    async with serving(tmp_path) as served:
        for path in ("/metrics", "/v1/quorum", "/v1/events", "/livez", "/", "/v1/stream"):
            for marks in (BROWSER, "Origin: http://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n"):
                answer = await served.get(path, marks)
                assert (answer.status, "kraft.http.hosts" in answer.json()["error"]) == (403, True), (path, marks)
        assert (await served.get("/metrics")).status == 200


async def test_names_of_the_node_and_configured_ones_are_no_foreign_pages(tmp_path: Path) -> None:
    async with serving(tmp_path, http_hosts="proxy.example, Other.example") as served:
        for host in (f"127.0.0.1:{served.port}", "localhost", "proxy.example", "other.example:443"):
            async with await served.connect() as stream:
                head = f"GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{BROWSER}\r\n"
                await stream.send_all(head.encode())
                answer = b"".join([data async for data in stream])
            assert answer.startswith(b"HTTP/1.1 200"), host
