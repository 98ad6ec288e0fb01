"""What a page of another site has a browser send is refused; other clients may use any name for the server."""

from __future__ import annotations

import attrs
import pytest

from kraft_trio.http.exchange import JSON
from kraft_trio.http.foreign_pages import PageGuard, guarded

GUARD = PageGuard(frozenset({"Node1.example.com"}))
FIREFOX = {"accept-language": "en"}
CHROME = {**FIREFOX, "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
LINK = {**FIREFOX, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@attrs.define
class Request:
    """As much of an Exchange as is looked at."""

    headers: dict[str, str]
    method: str = "GET"
    responses: list[tuple[int, bytes]] = attrs.field(factory=list)

    def header(self, name: bytes) -> bytes | None:
        value = self.headers.get(name.decode())
        return None if value is None else value.encode()

    async def respond(self, status: int, content: bytes, content_type: bytes = JSON, *, headers: bytes = b"") -> None:
        self.responses.append((status, content))


def refusal(host: str | None, headers: dict[str, str], guard: PageGuard = GUARD, method: str = "GET") -> str:
    return guard.refusal(Request({**({} if host is None else {"host": host}), **headers}, method)) or ""  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host", ["prometheus-target.example.com:9644", "kraft.svc.cluster.local", "127.0.0.1:9644", "anything", None]
)
@pytest.mark.parametrize(
    "headers", [{}, {"user-agent": "Prometheus/3.0", "accept": "text/plain"}, {"user-agent": "curl/8", "accept": "*/*"}]
)
def test_program_may_use_any_name(host: str | None, headers: dict[str, str]) -> None:
    assert refusal(host, headers) == ""


OWN = ("127.0.0.1:9644", "[::1]:9644", "[fe80::1%25eth0]:1", "10.0.0.7", "localhost:80", "localhost", "x.localhost:1")
NAMED = ("node1.example.com:9644", "NODE1.example.com", "node1.example.com.")


@pytest.mark.parametrize("host", [*OWN, *NAMED])
@pytest.mark.parametrize("headers", [FIREFOX, CHROME, LINK, {**FIREFOX, "sec-fetch-site": "none"}])
def test_browser_may_use_addresses_and_known_names(host: str, headers: dict[str, str]) -> None:
    assert refusal(host, headers) == ""


FOREIGN = (
    *("rebound.example.com:9644", "evil.node1.example.com", "node1.example.com.evil.example", "127.0.0.1.evil.example"),
    *("localhost.evil.example", "xlocalhost", "", "[::g]", "[evil]", "@127.0.0.1:80"),
)


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("mark", ["accept-language", "origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest"])
def test_rebound_name_is_refused_by_each_mark_of_a_browser(host: str, mark: str) -> None:
    value = {"sec-fetch-site": "same-origin", "origin": f"http://{host}"}.get(mark, "")
    assert refusal(host, {mark: value}).startswith("Host ")
    assert "kraft.http.hosts" in refusal(host, {mark: value})
    assert refusal(host, {}) == ""


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("null", "127.0.0.1:9644"),
        ("http://evil.example", "127.0.0.1:9644"),
        ("http://127.0.0.1:8080", "127.0.0.1:9644"),
        ("http://127.0.0.1", "127.0.0.1:9644"),
        ("file://127.0.0.1:9644", "127.0.0.1:9644"),
        ("moz-extension://x", "localhost"),
        ("", "localhost"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_page_of_another_origin_is_refused(origin: str, host: str, method: str) -> None:
    assert refusal(host, {"origin": origin}, method=method).startswith("Origin ")


def test_own_page_may_post_where_there_are_pages() -> None:
    for origin, host in (
        ("http://127.0.0.1:9644", "127.0.0.1:9644"),
        ("https://node1.example.com", "node1.example.com:443"),
    ):
        assert refusal(host, {"origin": origin, **CHROME}, method="POST") == ""
        without = PageGuard(GUARD.hosts, has_pages=False)
        assert refusal(host, {"origin": origin, **CHROME}, without, "POST").startswith("Origin ")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_site_without_origin_is_refused_unless_it_links(site: str) -> None:
    headers = {**CHROME, "sec-fetch-site": site}
    assert refusal("localhost:1", headers).startswith(f"Sec-Fetch-Site {site}")
    assert refusal("localhost:1", {"sec-fetch-site": site}).startswith(f"Sec-Fetch-Site {site}")
    assert refusal("localhost:1", {**LINK, "sec-fetch-site": site}) == ""
    assert refusal("localhost:1", {**LINK, "sec-fetch-site": site}, method="POST") != ""
    assert refusal("localhost:1", {**LINK, "sec-fetch-site": site, "sec-fetch-dest": "iframe"}) != ""


def test_guard_of_all_wants_a_name_of_everybody() -> None:
    guard = PageGuard(guards_all=True)
    assert refusal("rebound.example.com", {}, guard).startswith("Host ")
    assert refusal(None, {}, guard).startswith("Host ")
    assert refusal("127.0.0.1:1", {}, guard) == ""


async def test_refused_request_does_not_reach_the_endpoint() -> None:
    reached = []

    async def inner(exchange: object) -> None:
        reached.append(exchange)

    endpoint = guarded(inner, GUARD, lambda reason: reason.encode())
    foreign, own = Request({"host": "evil.example", **FIREFOX}), Request({"host": "localhost", **FIREFOX})
    await endpoint(foreign)  # type: ignore[arg-type]
    await endpoint(own)  # type: ignore[arg-type]
    assert reached == [own]
    [(status, content)] = foreign.responses
    assert status == 403
    assert content.startswith(b"Host 'evil.example'")
