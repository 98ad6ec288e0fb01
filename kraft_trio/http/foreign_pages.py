"""Refuses what the page of another site has somebody's browser send.

A page can make its visitor's browser send requests into a network that the page's author cannot reach.  By changing the
address of its own name to one of that network (DNS rebinding), it can even read the responses: for the browser they
come from its own site.  But then the request names that site in `Host`.

A browser is known by headers that it adds by itself and that no page can take away.  Programs such as scrapers, probes
and command line clients do not send them, so they may use any name for the server.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import attrs

from kraft_trio.http.exchange import Endpoint, Exchange

MARKS: Final = (b"origin", b"accept-language", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest")
"""The headers that tell a browser from other clients.  Over plain HTTP, `Sec-Fetch-…` go to localhost only."""
OTHER_SITES: Final = (b"cross-site", b"same-site")
"""Values of Sec-Fetch-Site.  The same site may have another host, or another port."""
DEFAULT_PORTS: Final = (":80", ":443")


def _names(hosts: Iterable[str]) -> frozenset[str]:
    return frozenset(host.lower().rstrip(".") for host in hosts)


@attrs.frozen
class PageGuard:
    """What one HTTP listener serves to browsers."""

    hosts: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    """The host names, without ports, by which a browser may know the server.  Addresses and localhost always may."""
    has_pages: bool = True
    """Whether the listener has pages of its own, whose requests it serves."""
    guards_all: bool = False
    """Whether every client has to know the server by one of these names."""

    def refusal(self, exchange: Exchange) -> str | None:
        """Why the request is refused, for its sender to read; None if it is served."""
        if not self.guards_all and all(exchange.header(mark) is None for mark in MARKS):
            return None
        host = (exchange.header(b"host") or b"").decode("latin-1").lower()
        if not self._is_own(_name_of(host)):
            return (
                f"Host {host!r:.100}: expected an address, localhost, or a name of this server; "
                "kraft.http.hosts lists further ones"
            )
        origin = exchange.header(b"origin")
        if origin is not None and not (self.has_pages and _authority_of(origin.decode("latin-1")) == _plain(host)):
            return f"Origin {origin.decode('latin-1')!r:.100}: a request of another site's page is not served"
        site = exchange.header(b"sec-fetch-site")
        if site in OTHER_SITES and not _is_link(exchange):
            return f"Sec-Fetch-Site {site.decode('latin-1')}: a request of another site's page is not served"
        return None

    def _is_own(self, name: str) -> bool:
        if name == "localhost" or name.endswith(".localhost") or name.rstrip(".") in self.hosts:
            return True
        try:
            ipaddress.ip_address(name.removeprefix("[").removesuffix("]").partition("%")[0])
        except ValueError:
            return False
        return True


def guarded(inner: Endpoint, guard: PageGuard, error: Callable[[str], bytes]) -> Callable[[Exchange], Awaitable[None]]:
    """The same endpoint, without what the guard refuses.  `error` makes the body of the refusal."""

    async def serve(exchange: Exchange) -> None:
        reason = guard.refusal(exchange)
        if reason is None:
            await inner(exchange)
        else:
            await exchange.respond(403, error(reason))

    return serve


def _is_link(exchange: Exchange) -> bool:
    """Whether somebody follows a link of another site.  Its page cannot read what then comes in its place."""
    is_shown = exchange.header(b"sec-fetch-mode") == b"navigate" and exchange.header(b"sec-fetch-dest") == b"document"
    return is_shown and exchange.method in ("GET", "HEAD")


def _name_of(host: str) -> str:
    """The value of Host without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _plain(authority: str) -> str:
    """The authority without a default port."""
    return next((authority.removesuffix(port) for port in DEFAULT_PORTS if authority.endswith(port)), authority)


def _authority_of(origin: str) -> str | None:
    """The host and port of an Origin; None if it names none, such as `null`."""
    scheme, separator, authority = origin.lower().partition("://")
    return _plain(authority) if separator and scheme in ("http", "https") else None
