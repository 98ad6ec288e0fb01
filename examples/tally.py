"""Counts words, with snapshots that let the log be trimmed: python -m examples.tally"""

import socket
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import trio

from kraft_trio import Committed, NewRecord, NodeConfig, Record, ensure_formatted, open_node, random_uuid


class Tally:
    """A state machine that counts words."""

    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()

    def apply(self, record: Committed[bytes]) -> int:
        """Count a word, and return how often it has come."""
        self.counts[record.value] += 1
        return self.counts[record.value]

    def save(self) -> Iterator[NewRecord]:
        """Return the present state.  The node writes this copy while more words are counted."""
        counts = sorted(self.counts.items())
        return (NewRecord(b"%d" % count, key=word) for word, count in counts)

    async def load(self, records: AsyncIterator[Record]) -> None:
        """Restore what `save` returned here or on another replica."""
        self.counts = Counter({record.key or b"": int(record.value or 0) async for record in records})
        print(f"loaded: {len(self.counts)} words")


async def run_once(config: NodeConfig, words: list[bytes]) -> None:
    tally = Tally()
    async with open_node(config, state_machine=tally) as node:
        for word in words:
            await node.execute(word)
        await node.take_snapshot()  # the node also takes one when the log has grown, and once an hour
    print(dict(sorted(tally.counts.items())))


async def main(directory: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    keys = {
        "node.id": 1,
        "listeners": f"CONTROLLER://{address}",
        "controller.quorum.bootstrap.servers": address,
        "metadata.log.dir": directory,
        "kraft.topic.name": "words",
    }
    config = NodeConfig.from_mapping(keys)
    await ensure_formatted(config, random_uuid(), {1: address})
    await run_once(config, [b"to", b"be", b"or", b"not", b"to", b"be"])
    await run_once(config, [b"that", b"is"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        trio.run(main, temporary)
