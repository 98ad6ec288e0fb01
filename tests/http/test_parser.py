"""HTTP requests read from bytes, however these arrive."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.http.parser import END, BadRequest, Event, Head, RequestParser

MAX_HEAD_BYTES = 64 * 1024

POST = b"POST /v3/kv/put?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = (
    b"POST /a HTTP/1.1\r\nHOST: a\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nHost: b\r\n\r\n"
)
GET = b"GET http://b:1/version HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n"
UPGRADE = (
    b"POST /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nContent-Length: 3\r\n\r\nabc"
)
UPGRADED_GET = b"GET /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def events_of(*pieces: bytes) -> list[Event]:
    parser = RequestParser(MAX_HEAD_BYTES)
    found: list[Event] = []
    for piece in pieces:
        parser.feed(piece)
        while (event := parser.next_event()) is not None:
            found.append(event)
    return found


def requests_of(*pieces: bytes) -> list[tuple[str, str, bytes]]:
    """Method, path and body of each request."""
    requests: list[tuple[str, str, bytes]] = []
    method = path = ""
    body = b""
    for event in events_of(*pieces):
        if isinstance(event, Head):
            method, path, body = event.method, event.path, b""
        elif event == END:
            requests.append((method, path, body))
        else:
            body += event
    return requests


def test_a_length_with_thousands_of_zeros() -> None:
    """Python refuses to make a number of them."""
    padded = POST.replace(b"Content-Length: 3", b"Content-Length: " + b"0" * 5000 + b"3")
    assert requests_of(padded) == requests_of(POST)
    head = events_of(padded)[0]
    assert isinstance(head, Head)
    assert head.content_length == 3


@given(st.lists(st.integers(1, 400)))
def test_requests_are_the_same_however_they_arrive(cuts: list[int]) -> None:
    data = POST + GET + UPGRADE + CHUNKED + UPGRADED_GET + UPGRADE + POST
    bounds = [0, *sorted(cut for cut in set(cuts) if cut < len(data)), len(data)]
    pieces = [data[start:end] for start, end in itertools.pairwise(bounds)]
    put, up = ("POST", "/v3/kv/put", b"abc"), ("POST", "/up", b"abc")
    expected = [put, ("GET", "/version", b""), up, ("POST", "/a", b"abc"), ("GET", "/up", b""), up, put]
    assert requests_of(*pieces) == expected


def test_a_connection_may_have_many_requests() -> None:
    pieces = [GET[:40], GET[40:]] * (2 * MAX_HEAD_BYTES // 40)
    assert len(requests_of(*pieces)) == len(pieces) / 2


def test_a_trailer_changes_no_header() -> None:
    [head, *_] = events_of(CHUNKED)
    assert isinstance(head, Head)
    assert head.headers[b"host"] == b"a"


def test_many_upgrades_in_one_piece() -> None:
    assert len(requests_of(UPGRADED_GET * 5000)) == 5000


@pytest.mark.parametrize(
    ("data", "keep_alive", "is_http_1_0"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", True, False),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", False, False),
        (b"GET / HTTP/1.0\r\n\r\n", False, True),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", False, True),
    ],
)
def test_who_may_send_another_request(data: bytes, keep_alive: bool, is_http_1_0: bool) -> None:
    [head, end] = events_of(data)
    assert isinstance(head, Head)
    assert (head.keep_alive, head.is_http_1_0, end) == (keep_alive, is_http_1_0, END)


HEAD = b"POST /a HTTP/1.1\r\nHost: a\r\n"
BAD = {
    "no HTTP": b"\x00\x01\x02 nothing\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "lengths that differ": HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "a length twice": HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a length that is no number": HEAD + b"Content-Length: x\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "a length and chunks": HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown encoding": HEAD + b"Transfer-Encoding: gzip\r\n\r\nabc",
    "a bad chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a huge chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    "a header over two lines": HEAD + b"X: y\r\n z\r\n\r\n",
    "a space before the colon": HEAD + b"Content-Length : 3\r\n\r\nabc",
    "line feeds alone": b"GET / HTTP/1.1\nHost: a\n\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown version": b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    "a tunnel": b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a body longer than told": HEAD + b"Content-Length: 1\r\n\r\nabc\r\n\r\n",
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        events_of(GET + data)
    assert refused.value.status == 400
    with pytest.raises(BadRequest):
        events_of(GET, *(bytes([byte]) for byte in data))


def test_requests_before_a_bad_one_are_read() -> None:
    parser = RequestParser(MAX_HEAD_BYTES)
    parser.feed(GET + b"\x00\r\n")
    parser.feed(GET)
    assert isinstance(parser.next_event(), Head)
    assert parser.next_event() == END
    for _ in range(2):
        with pytest.raises(BadRequest):
            parser.next_event()


ENDLESS = {
    "a URL": (b"GET /", b"a"),
    "one header": (b"GET / HTTP/1.1\r\nX: ", b"a"),
    "many headers": (b"GET / HTTP/1.1\r\n", b"X: y\r\n"),
    "a chunk's extension": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a"),
    "trailers": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n"),
}


@pytest.mark.parametrize(("start", "more"), ENDLESS.values(), ids=ENDLESS)
def test_what_never_ends_is_refused(start: bytes, more: bytes) -> None:
    parser = RequestParser(MAX_HEAD_BYTES)
    parser.feed(start)
    fed = 0
    while parser.error is None:
        assert fed <= 2 * MAX_HEAD_BYTES
        parser.feed(more * 100)
        fed += 100 * len(more)
    assert parser.error.status == 431


CLOSING = b"POST /v3/kv/put?x=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"
EXPECTING = b"POST /e HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc"
EXPECTED: dict[bytes, tuple[str, str, bytes]] = {
    POST: ("POST", "/v3/kv/put", b"abc"),
    POST[:-3] + b"xyz": ("POST", "/v3/kv/put", b"xyz"),
    POST[:-3] + b"\r\n\r": ("POST", "/v3/kv/put", b"\r\n\r"),
    GET: ("GET", "/version", b""),
    CHUNKED: ("POST", "/a", b"abc"),
    UPGRADE: ("POST", "/up", b"abc"),
    UPGRADED_GET: ("GET", "/up", b""),
    EXPECTING: ("POST", "/e", b"abc"),
}


@given(st.lists(st.sampled_from(list(EXPECTED)), max_size=6), st.data())
def test_requests_like_the_last_one_are_the_same_however_they_arrive(made: list[bytes], data: st.DataObject) -> None:
    pieces: list[bytes] = []
    for request in made:
        together = pieces and data.draw(st.booleans(), "in one piece with the last one")
        cut = data.draw(st.sampled_from([0, len(request), *range(1, len(request))]), "cut at")
        start, *rest = [part for part in (request[:cut], request[cut:]) if part]
        if together:
            pieces[-1] += start
        else:
            pieces.append(start)
        pieces += rest
    assert requests_of(*pieces) == [EXPECTED[request] for request in made]


def heads_of(*pieces: bytes) -> list[Head]:
    return [event for event in events_of(*pieces) if isinstance(event, Head)]


def test_a_request_with_the_same_head_is_not_parsed() -> None:
    first, second, third = heads_of(POST, POST[:-3] + b"xyz", GET)
    assert second is first
    assert third is not first


@pytest.mark.parametrize("request_", [CHUNKED, UPGRADE, EXPECTING], ids=["chunked", "upgrade", "expect"])
def test_a_request_of_another_kind_is_parsed_each_time(request_: bytes) -> None:
    first, second = heads_of(request_, request_)
    assert second is not first


def test_nothing_follows_a_request_that_closes() -> None:
    parser = RequestParser(MAX_HEAD_BYTES)
    parser.feed(CLOSING)
    head = parser.next_event()
    assert isinstance(head, Head)
    assert not head.keep_alive
    parser.feed(CLOSING)
    assert parser.error is not None


def test_a_body_that_is_too_long_begins_another_request() -> None:
    assert isinstance(events_of(POST, POST)[-1], bytes)
    with pytest.raises(BadRequest):
        events_of(POST, POST + b"garbage\r\n\r\n")
