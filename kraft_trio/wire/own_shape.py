"""The shapes of messages and of tagged fields that Kafka does not have."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kraft_trio.wire.schema import ENTITY, EntityShape, FieldShape


def own_shape(name: str, /, **kinds: str | EntityShape) -> EntityShape:
    """A structure in the compact encoding (KIP-482).

    Each field has a type name, with `?` if it may be null, or the structure of an array's items.
    """
    fields = []
    for field, kind in kinds.items():
        if isinstance(kind, EntityShape):
            fields.append(FieldShape(field, ENTITY, kind, is_array=True, nullable=False, tag=None, default=None))
        else:
            is_nullable = kind.endswith("?")
            shape = FieldShape(field, kind.rstrip("?"), None, False, is_nullable, None, None)
            fields.append(shape)
    return EntityShape(name, flexible=True, fields=tuple(fields), tagged=())


def with_tagged_fields(shape: EntityShape, place: Sequence[str], *fields: FieldShape) -> EntityShape:
    """Add fields of our own to the structure that is reached by the field names in `place`."""
    if not place:
        return attrs.evolve(shape, tagged=(*shape.tagged, *fields))
    name, *further = place

    def extended(field: FieldShape) -> FieldShape:
        assert field.entity is not None, f"{name} is no structure"
        return attrs.evolve(field, entity=with_tagged_fields(field.entity, further, *fields))

    return attrs.evolve(shape, fields=tuple(extended(it) if it.name == name else it for it in shape.fields))
