"""Makes what `kraft.state.machine=kv` and the keys of the gateway ask for."""

from __future__ import annotations

from functools import partial
from typing import Any

from kraft_trio.config import NodeConfig
from kraft_trio.extras import needing
from kraft_trio.kv.command_serde import CommandSerde
from kraft_trio.kv.machine import KvMachine


def key_value_store(config: NodeConfig) -> dict[str, Any]:
    """The arguments of `run_node` for a node with the key-value store.

    Raises MissingExtraError if the packages that serve it are not installed.
    """
    with needing("kv", "kraft.state.machine=kv"):
        from kraft_trio.kv.gateway.server import kv_gateway

    machine = KvMachine()
    listener, advertised = config.kv_listener, config.kv_advertised_listener
    serving = partial(
        kv_gateway,
        machine=machine,
        listener=listener[0].endpoint if listener else None,
        advertised=advertised[0].endpoint if advertised else None,
        keep_revisions=config.kv_keep_revisions,
        quota_bytes=config.kv_quota_bytes,
    )
    return {"serde": CommandSerde(), "state_machine": machine, "serving": serving}
