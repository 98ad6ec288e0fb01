"""A replicated key-value store with etcd's vocabulary: a state machine of the library, and a gateway.

See docs/how-to/key-value-store.md.
"""

from kraft_trio.kv.command_serde import CommandSerde
from kraft_trio.kv.errors import KvError
from kraft_trio.kv.machine import KvMachine

__all__ = ["CommandSerde", "KvError", "KvMachine"]
