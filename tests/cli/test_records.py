"""`kraft records`: what is appended is printed with its offset, and read again."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import pytest
import trio

from kraft_trio.cli import run
from kraft_trio.cli.logs.record_access import RecordAccess
from kraft_trio.errors import NetworkError
from kraft_trio.simulation import Cluster
from kraft_trio.storage.batches.batch import NewRecord, Record
from tests.support.on_cluster import on_cluster

SERVER = ["--bootstrap-server", "node-1:9092"]


def access_to(cluster: Cluster, *, timeout_ms: int = 30_000) -> RecordAccess:
    nodes = [cluster.endpoint_of(id) for id in cluster.voter_ids]
    return RecordAccess(nodes, timeout_ms, cluster.network.seen_from("client-cli"))


async def in_batches(*batches: Sequence[bytes]) -> AsyncIterator[Sequence[NewRecord]]:
    for batch in batches:
        yield [NewRecord(value) for value in batch]


async def values_from(access: RecordAccess, offset: int | None = None) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) async for record in access.read(offset, follow=False)]


@on_cluster()
async def test_records_are_appended_and_read_to_the_end(cluster: Cluster) -> None:
    access = access_to(cluster)
    offsets = [offset async for offset in access.append(in_batches([b"a", b"b"], [b"c"]))]
    expected = list(zip(offsets, [b"a", b"b", b"c"], strict=True))
    assert await values_from(access) == expected
    assert await values_from(access, offsets[1]) == expected[1:]
    assert await values_from(access, offsets[-1] + 1) == []


@on_cluster()
async def test_following_waits_for_the_next_record(cluster: Cluster) -> None:
    access = access_to(cluster)
    found: list[bytes | None] = []

    async def follow() -> None:
        async for record in access.read(None, follow=True):
            found.append(record.value)
            if record.value == b"late":
                return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await trio.sleep(60)
        assert [offset async for offset in access.append(in_batches([b"late"]))]
    assert found == [b"late"]


@on_cluster(started=(1,))
async def test_without_a_leader_the_time_limit_ends_it(cluster: Cluster) -> None:
    access = access_to(cluster, timeout_ms=5000)
    with pytest.raises(NetworkError, match="node-1:9093: knows no leader"):
        await values_from(access)


class FakeAccess:
    """Notes what is appended, and has two records to read."""

    appended: list[NewRecord]

    def __init__(self) -> None:
        self.appended = []

    async def append(self, batches: AsyncIterator[Sequence[NewRecord]]) -> AsyncGenerator[int, None]:
        async for batch in batches:
            for record in batch:
                self.appended.append(record)
                yield len(self.appended) - 1

    async def read(self, from_offset: int | None, *, follow: bool) -> AsyncGenerator[Record, None]:
        yield Record(3, 1000, b"k", b"text\n", ())
        yield Record(5, 1000, None, b"\xff", ())


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> FakeAccess:
    fake = FakeAccess()
    monkeypatch.setattr("kraft_trio.cli.logs.records.RecordAccess", lambda *_: fake)
    return fake


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_values_of_the_command_line(access: FakeAccess, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["records", "append", *SERVER, "--key", "k", "one", "two"]) == 0
    assert access.appended == [NewRecord(b"one", b"k"), NewRecord(b"two", b"k")]
    assert capsys.readouterr().out == "0\n1\n"


def test_lines_of_stdin(access: FakeAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"a=1\r\n\nb=2=3\nlast")
    assert run(["records", "append", *SERVER, "--key-separator", "="]) == 0
    assert access.appended == [NewRecord(b"1", b"a"), NewRecord(b""), NewRecord(b"2=3", b"b"), NewRecord(b"last")]


def test_what_is_read_is_one_line_each(access: FakeAccess, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["records", "read", *SERVER, "--keys"]) == 0
    assert capsys.readouterr().out == "3\tk\t0x746578740a\n5\tnull\t0xff\n"
    assert run(["records", "read", *SERVER, "--json", "--count", "1"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"offset": 3, "timestamp": 1000, "key": "k", "value": "text\n"}
    ]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["append", "x"], 2, "Missing option '--bootstrap-server'"),
        (["append", *SERVER, "--key", "k", "--key-separator", "=", "x"], 2, "exclude each other"),
        (["append", *SERVER, "--key-separator", "", "x"], 2, "expected at least one character"),
        (["read", "--bootstrap-server", "node-1"], 1, "--bootstrap-server node-1: 'node-1' has no port"),
        (["read", *SERVER, "--from", "-1"], 2, "'-1' is not a whole number from 0"),
    ],
)
def test_a_wrong_command_line(
    arguments: list[str], exit_code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["records", *arguments]) == exit_code
    assert message in capsys.readouterr().err
