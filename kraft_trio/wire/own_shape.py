"""The shapes of messages that Kafka does not have."""

from __future__ import annotations

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
