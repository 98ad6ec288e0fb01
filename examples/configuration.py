"""Configuration that every node watches: python -m examples.configuration"""

from collections.abc import AsyncIterator, Sequence

import attrs
import msgpack
import trio

from examples.local_quorum import local_quorum
from kraft_trio import CommandFailed, Committed, MsgpackSerde, NewRecord, Node, Record


@attrs.frozen
class Put:
    key: str
    value: str
    if_version: int | None = None  # 0 for a key that is new


class Configuration:
    def __init__(self) -> None:
        self.settings: dict[str, tuple[int, str]] = {}  # versions and values
        self.changed = trio.Event()

    def apply(self, record: Committed[Put]) -> int:
        """Return the new version of the key, which is the offset of the record."""
        put = record.value
        version, _ = self.settings.get(put.key, (0, ""))
        if put.if_version not in (None, version):
            raise CommandFailed("the key has another version", version)
        self.settings[put.key] = (record.offset, put.value)
        self._wake()
        return record.offset

    def save(self) -> Sequence[NewRecord]:
        return [NewRecord(msgpack.packb([key, *setting])) for key, setting in sorted(self.settings.items())]

    async def load(self, records: AsyncIterator[Record]) -> None:
        loaded = [msgpack.unpackb(record.value or b"") async for record in records]
        self.settings = {key: (version, value) for key, version, value in loaded}
        self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def watch(self, key: str) -> AsyncIterator[str]:
        """Yield the value of a key and then each newer one.  A slow reader misses some, but never the newest."""
        seen = 0
        while True:
            changed, (version, value) = self.changed, self.settings.get(key, (0, ""))
            if version > seen:
                seen = version
                yield value
            else:
                await changed.wait()


async def follow(node: Node[Put, int], configuration: Configuration) -> None:
    async for value in configuration.watch("log-level"):
        print(f"node {node.key.id}: log-level={value}")
        if value == "info":
            return


async def main() -> None:
    machines = [Configuration() for _ in range(3)]
    async with local_quorum(MsgpackSerde(Put), machines) as nodes, trio.open_nursery() as nursery:
        for node, configuration in zip(nodes, machines, strict=True):
            nursery.start_soon(follow, node, configuration)
        version = await nodes[0].execute(Put("log-level", "debug", if_version=0))
        await nodes[1].execute(Put("log-level", "info", if_version=version))
        try:
            await nodes[2].execute(Put("log-level", "error", if_version=version))
        except CommandFailed as error:
            print("refused:", error)


if __name__ == "__main__":
    trio.run(main)
