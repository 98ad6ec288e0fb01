"""Two ways to use a quorum's log, with one interface: a LogClient over the network, or a node in the same process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

import attrs
import trio

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.log_client import LogClient
from kraft_trio.client.quorum_description import UNKNOWN, NoLeader
from kraft_trio.errors import NetworkError
from kraft_trio.node import Node
from kraft_trio.simulation.world import World
from kraft_trio.storage.batches.batch import decode_records

LISTENING_S: Final = 0.2
"""How long an embedded reader without an end waits for more commits."""


@attrs.frozen
class Values:
    """The result of a read.  It holds every value from its beginning to `end_offset` (exclusive)."""

    offsets: tuple[int, ...]
    values: tuple[bytes, ...]
    end_offset: int
    from_offset: int | None = None
    """Where the read began (inclusive), if the log no longer had what was asked for."""
    is_by_lease: bool = False
    """Whether the leader answered the read's barrier by its lease."""

    @classmethod
    def of(cls, records: Sequence[tuple[int, bytes]], end_offset: int) -> Values:
        """From pairs of offset and value, ascending."""
        return cls(tuple(offset for offset, _ in records), tuple(value for _, value in records), end_offset)


class LogAccess(ABC):
    """Access to the log.  Every method raises what the client library or node raises, and TooSlowError after
    `within_s`."""

    via: int | None
    """The node whose process it is embedded in; None over the network."""

    @abstractmethod
    async def append(self, values: Sequence[bytes], within_s: float) -> Sequence[int]:
        """Append the values as one batch and wait until they are committed.  Returns their offsets."""

    @abstractmethod
    async def read(self, from_offset: int, until: int, within_s: float) -> Values:
        """Wait for the values from `from_offset` (inclusive) to `until` (exclusive), the end of a value."""

    @abstractmethod
    async def read_committed(self, from_offset: int, within_s: float) -> Values:
        """The values from `from_offset` (inclusive) up to what is known to be committed, perhaps not the newest."""

    async def read_behind_barrier(self, from_offset: int, within_s: float) -> Values:
        """The values from `from_offset` (inclusive) up to the read index, once the node has applied all below it.

        If the log is trimmed, they begin at its start.
        """
        raise NotImplementedError("a client over the network has no node whose barrier it could wait for")


class NetworkAccess(LogAccess):
    """A client on its own host.  It finds the leader and retries as its library does."""

    via = None

    def __init__(self, world: World, name: str, client: LogClient, *, retry_backoff_ms: int = 200) -> None:
        self._client = client
        self._admin = AdminClient(
            world.bootstrap_servers,
            name,
            retry_backoff_ms=retry_backoff_ms,
            network=world.network.seen_from(f"client-{name}"),
        )

    async def append(self, values: Sequence[bytes], within_s: float) -> Sequence[int]:
        return await self._client.produce(values, timeout_ms=round(within_s * 1000))

    async def read(self, from_offset: int, until: int, within_s: float) -> Values:
        reader = self._client.read(from_offset, until)
        try:
            with trio.fail_after(within_s):
                return Values.of([(record.offset, record.value or b"") async for record in reader], until)
        finally:
            await reader.aclose()

    async def read_committed(self, from_offset: int, within_s: float) -> Values:
        """Read up to the high watermark that the leader reports.  Raises NetworkError if there is no leader or no such
        commit."""
        with trio.fail_after(within_s):
            quorum = await self._admin.describe_metadata_quorum(round(within_s * 1000))
        if isinstance(quorum, NoLeader):
            raise NetworkError(f"no leader: {'; '.join(map(str, quorum.views))}")
        if quorum.high_watermark == UNKNOWN or quorum.high_watermark < from_offset:
            raise NetworkError(f"node {quorum.leader_id} leads, and knows of no commit at offset {from_offset} yet")
        return await self.read(from_offset, quorum.high_watermark, within_s)


class EmbeddedAccess(LogAccess):
    """An application in the process of a node: it appends through the node and reads the node's copy of the log."""

    def __init__(self, node: Node) -> None:
        self.via = node.config.node_id
        self._node = node

    async def append(self, values: Sequence[bytes], within_s: float) -> Sequence[int]:
        with trio.fail_after(within_s):
            return await self._node.append(values)

    async def read(self, from_offset: int, until: int, within_s: float) -> Values:
        records: list[tuple[int, bytes]] = []
        with trio.fail_after(within_s):
            await self._read(from_offset, until, records)
        return Values.of(records, until)

    async def read_committed(self, from_offset: int, within_s: float) -> Values:
        """Read what the node knows to be committed.  The end is that of the last value, because the node reports only
        values."""
        records: list[tuple[int, bytes]] = []
        with trio.move_on_after(min(LISTENING_S, within_s)):
            await self._read(from_offset, None, records)
        return Values.of(records, records[-1][0] + 1 if records else from_offset)

    async def read_behind_barrier(self, from_offset: int, within_s: float) -> Values:
        with trio.fail_after(within_s):
            read_index = await self._node.tree.read_barrier()
        from_offset = max(from_offset, self._node.log.log_start_offset)
        records = [
            (record.offset, record.value or b"")
            for header, batch in self._node.log.iter_batches(from_offset, read_index.offset)
            if not header.is_control
            for record in decode_records(batch, 0, header)
            if record.offset >= from_offset
        ]
        values = Values.of(records, read_index.offset)
        return attrs.evolve(values, from_offset=from_offset, is_by_lease=read_index.is_by_lease)

    async def _read(self, from_offset: int, until: int | None, records: list[tuple[int, bytes]]) -> None:
        if until is not None and until <= from_offset:
            return
        async with aclosing(self._node.committed(from_offset)) as committed:
            async for record in committed:
                if until is None or record.offset < until:
                    records.append((record.offset, record.value))
                if until is not None and record.offset + 1 >= until:
                    return
