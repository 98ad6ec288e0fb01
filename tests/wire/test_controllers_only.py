"""What a witness refuses as Apache Kafka's controllers would, as kio reads it."""

from __future__ import annotations

import importlib
import re
from typing import Any

import attrs
import pytest
from kio.schema.errors import ErrorCode as KioError
from kio.serial import entity_reader

from kraft_trio.wire.api import APIS
from kraft_trio.wire.apis.controllers_only import CONTROLLERS_ONLY
from kraft_trio.wire.error_codes import ErrorCode

NEWER_THAN_KIO = {("BrokerHeartbeat", 2), ("UnregisterController", 0)}
VERSIONS = [
    (api, version)
    for api in CONTROLLERS_ONLY.values()
    for version in range(api.min_version, api.max_version + 1)
    if (api.name, version) not in NEWER_THAN_KIO
]


def errors_in(value: Any) -> list[KioError]:
    """All the error codes of a response, nested ones too."""
    if isinstance(value, KioError):
        return [value]
    if isinstance(value, tuple):
        return [error for one in value for error in errors_in(one)]
    if attrs.has(type(value)) or hasattr(value, "__dataclass_fields__"):
        return [error for name in value.__dataclass_fields__ for error in errors_in(getattr(value, name))]
    return []


@pytest.mark.parametrize(("api", "version"), VERSIONS, ids=lambda value: getattr(value, "name", value))
def test_kio_finds_the_error_once(api: Any, version: int) -> None:
    """Kafka's brokers and tools look for the error anywhere in the response."""
    chunks: list[bytes] = []
    api.encode_response(api.error_response(ErrorCode.not_controller, None), version, chunks)
    written = b"".join(chunks)
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", api.name).lower()
    response = getattr(importlib.import_module(f"kio.schema.{module}.v{version}.response"), f"{api.name}Response")
    read, size = entity_reader(response)(written, 0)
    assert size == len(written)
    assert errors_in(read) == [KioError.not_controller]
    assert (version >= api.flexible_version) == response.__flexible__


def test_no_node_serves_them() -> None:
    assert not CONTROLLERS_ONLY.keys() & APIS.keys()
