"""Column names in a schema of the user's: as case-insensitive as Spark's."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import StructField, StructType


def as_known(schema: StructType, known: Iterable[str]) -> StructType:
    """The schema with its names in the known spelling.  Unknown names stay as they are.

    A name that the schema also has in the known spelling stays too: with `spark.sql.caseSensitive=true` both are meant.
    """
    spellings = {name.lower(): name for name in known}

    def spelled(name: str) -> str:
        spelling = spellings.get(name.lower(), name)
        return name if spelling in schema.names else spelling

    return StructType(
        [StructField(spelled(field.name), field.dataType, field.nullable, field.metadata) for field in schema]
    )
