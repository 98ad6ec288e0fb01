"""A resolver that does not answer keeps nobody waiting but those who need its answer, and them not for ever."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from kraft_trio.errors import NetworkError
from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.name_resolution import FRESH_S, MAX_LOOKUPS, MAX_NAMES, REFRESH_TIMEOUT_S, TIMEOUT_S, NameResolver
from kraft_trio.wire.tcp_network import TcpNetwork


class Names:
    """A resolver of the test's own: `hung` names have no answer until they are released."""

    def __init__(self) -> None:
        self.addresses = {"here": ["127.0.0.1", "::1", "127.0.0.1"]}
        self.hung: set[str] = set()
        self.asked: list[str] = []
        self._released = threading.Event()

    def look_up(self, host: str, port: None, **_: Any) -> list[Any]:
        self.asked.append(host)
        if host in self.hung:
            self._released.wait()
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in self.addresses[host]]

    async def wait_until_asked(self, count: int) -> None:
        """In real time: the threads that ask have a clock of their own."""
        while len(self.asked) < count:
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def names() -> Iterator[Names]:
    made = Names()
    yield made
    made.release()


async def test_an_address_needs_no_resolver(names: Names) -> None:
    resolver = NameResolver(names.look_up)
    assert await resolver.addresses("127.0.0.1") == ("127.0.0.1",)
    assert await resolver.addresses("::1") == ("::1",)
    assert names.asked == []


@pytest.mark.parametrize(
    ("host", "message"),
    [
        # Python would encode it, which takes seconds.  Peers name hosts.
        ("".join(map(chr, range(0x4E00, 0x4E00 + 2000))), "2000 characters, at most 255 are allowed"),
        ("a" * 256, "256 characters, at most 255 are allowed"),
        ("127.0.0.1\0", "it has a NUL character"),
    ],
    ids=["not ASCII", "long", "NUL"],
)
async def test_what_no_name_can_be_is_not_looked_up(
    names: Names, monkeypatch: pytest.MonkeyPatch, host: str, message: str
) -> None:
    def unreachable(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was looked up")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    with pytest.raises(ValueError, match=message):
        await NameResolver(names.look_up).addresses(host)
    with pytest.raises(NetworkError, match=f"cannot connect: .*{message}"):
        await TcpNetwork().connect(Endpoint(host, 1))
    assert names.asked == []


async def test_each_address_once_in_order(names: Names) -> None:
    assert await NameResolver(names.look_up).addresses("here") == ("127.0.0.1", "::1")


async def test_an_unknown_name_is_an_error(names: Names) -> None:
    with pytest.raises(NetworkError, match="'nowhere' is not resolved: Name or service not known"):
        await NameResolver(names.look_up).addresses("nowhere")


async def test_an_answer_is_remembered_for_a_while(names: Names, mock_clock: trio.testing.MockClock) -> None:
    resolver = NameResolver(names.look_up)
    for _ in range(3):
        await resolver.addresses("here")
    assert names.asked == ["here"]
    mock_clock.jump(FRESH_S)
    await resolver.addresses("here")
    assert names.asked == ["here", "here"]
    resolver.forget("here")
    await resolver.addresses("here")
    assert names.asked == ["here", "here", "here"]


async def test_a_hung_resolver_takes_one_thread_a_name(names: Names, mock_clock: trio.testing.MockClock) -> None:
    names.hung = {f"slow-{number}" for number in range(100)}
    resolver = NameResolver(names.look_up)
    failures: list[str] = []

    async def ask(host: str) -> None:
        try:
            await resolver.addresses(host)
        except NetworkError as error:
            failures.append(str(error))

    async with trio.open_nursery() as nursery:
        for host in sorted(names.hung) * 3:
            nursery.start_soon(ask, host)
        await names.wait_until_asked(MAX_LOOKUPS)
        mock_clock.jump(TIMEOUT_S)
    assert len(failures) == 300
    assert len(names.asked) == MAX_LOOKUPS
    assert sum("no answer in 10 s" in failure for failure in failures) == 3 * MAX_LOOKUPS
    assert sum("other names are being looked up" in failure for failure in failures) == 300 - 3 * MAX_LOOKUPS


async def test_the_last_answer_serves_while_the_resolver_hangs(
    names: Names, mock_clock: trio.testing.MockClock
) -> None:
    resolver = NameResolver(names.look_up)
    known = await resolver.addresses("here")
    names.hung = {"here"}
    mock_clock.jump(FRESH_S)
    answers: list[tuple[str, ...]] = []

    async def ask() -> None:
        answers.append(await resolver.addresses("here"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await names.wait_until_asked(2)
        assert not answers
        mock_clock.jump(REFRESH_TIMEOUT_S)
    assert answers == [known]
    assert names.asked == ["here", "here"]


async def test_a_lookup_outlives_who_asked(names: Names) -> None:
    names.hung = {"here"}
    resolver = NameResolver(names.look_up)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(resolver.addresses, "here")
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    names.release()
    assert await resolver.addresses("here") == ("127.0.0.1", "::1")
    assert names.asked == ["here"]


async def test_only_so_many_names_are_remembered(names: Names) -> None:
    names.addresses = {f"host-{number}": ["127.0.0.1"] for number in range(MAX_NAMES + 1)}
    resolver = NameResolver(names.look_up)
    for host in (*names.addresses, "host-1", "host-0"):
        await resolver.addresses(host)
    assert len(names.asked) == MAX_NAMES + 2


async def test_connecting_by_name_takes_none_of_trios_threads(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    names.hung = {"slow"}
    monkeypatch.setattr("kraft_trio.wire.tcp_network.NameResolver", lambda: NameResolver(names.look_up))
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, _hang_up, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        names.addresses["here"] = ["127.0.0.1"]
        for _ in range(50):
            nursery.start_soon(_connect_in_vain, port)
        await trio.testing.wait_all_tasks_blocked()
        limiter = trio.to_thread.current_default_thread_limiter()
        assert limiter.borrowed_tokens == 0
        stream = await TcpNetwork().connect(Endpoint("here", port))
        await stream.aclose()
        nursery.cancel_scope.cancel()


async def _hang_up(stream: trio.SocketStream) -> None:
    await stream.aclose()


async def _connect_in_vain(port: int) -> None:
    await TcpNetwork().connect(Endpoint("slow", port))
