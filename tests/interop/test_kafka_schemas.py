"""The requests and responses that nodes serve have the fields that Kafka's own schemas have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kraft_trio.wire.api import APIS
from kraft_trio.wire.apis.controllers_only import CONTROLLERS_ONLY
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.schema import STRUCTURE, Structure
from kraft_trio.wire.schema import Field as OurField
from tests.interop.kafka_schemas import includes, schemas_in

OUR_TAGS = 10_000
"""The first tag of fields of our own."""
SAME = {"error_code": "int16", "records": "bytes"}
"""Types with the same bytes."""

Field = tuple[str, bool, bool, object]
"""The type, whether it is an array, whether it may be null, and the fields of a structure."""
Fields = tuple[list[Field], dict[int, Field]]
"""Those without a tag in order, and the others by their tags."""


def kafkas_fields(fields: list[dict[str, Any]], structures: Mapping[str, list[dict[str, Any]]], version: int) -> Fields:
    in_order: list[Field] = []
    tagged: dict[int, Field] = {}
    for field in fields:
        if not includes(field["versions"], version):
            continue
        kind = field["type"].removeprefix("[]")
        kind = SAME.get(kind, kind)
        inner = field.get("fields", structures.get(kind))
        found = (
            STRUCTURE if inner is not None else kind,
            field["type"].startswith("[]"),
            includes(field.get("nullableVersions", "none"), version),
            None if inner is None else kafkas_fields(inner, structures, version),
        )
        if "tag" in field and includes(field["taggedVersions"], version):
            tagged[field["tag"]] = found
        else:
            in_order.append(found)
    return in_order, tagged


def our_fields(structure: Structure) -> Fields:
    def of(field: OurField) -> Field:
        kind = SAME.get(field.kind, field.kind)
        inner = None if field.structure is None else our_fields(field.structure)
        return kind, field.is_array, field.nullable, inner

    tagged = {field.tag: of(field) for field in structure.tagged if field.tag is not None and field.tag < OUR_TAGS}
    return [of(field) for field in structure.fields], tagged


@pytest.fixture(scope="module")
def schemas() -> dict[tuple[int, str], dict[str, Any]]:
    """By API key and kind."""
    found = schemas_in("kafka-clients", "common/message/")
    return {(schema["apiKey"], schema["type"]): schema for schema in found if schema["type"] in ("request", "response")}


MESSAGES = [
    *((api, kind) for api in APIS.values() if api.key < OUR_TAGS for kind in ("request", "response")),
    *((api, "response") for api in CONTROLLERS_ONLY.values()),
]


@pytest.mark.parametrize(("api", "kind"), MESSAGES, ids=lambda value: getattr(value, "name", value))
def test_each_version_has_the_fields_of_kafka(
    schemas: dict[tuple[int, str], dict[str, Any]], api: Api[Any, Any], kind: Any
) -> None:
    if api.key in CONTROLLERS_ONLY and (api.key, kind) not in schemas:
        pytest.skip(f"this version of Kafka has no {api.name}")
    schema = schemas[api.key, kind]
    structures = {one["name"]: one["fields"] for one in schema.get("commonStructs", ())}
    both = [v for v in range(api.min_version, api.max_version + 1) if includes(schema["validVersions"], v)]
    assert both
    for version in both:
        assert (version >= api.flexible_version) == includes(schema["flexibleVersions"], version)
        ours, tagged = our_fields(api.structure(kind, version))
        kafkas, kafkas_tagged = kafkas_fields(schema["fields"], structures, version)
        assert ours == kafkas, f"version {version}"
        # A reader passes over tags that it does not know.
        assert tagged == {tag: kafkas_tagged.get(tag) for tag in tagged}, f"version {version}"
