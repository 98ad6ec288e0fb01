"""The rows of a quorum's directories, and registers of the ways in which tests change them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import attrs

PLACE = ("directory", "cluster_id", "node", "directory_id", "segment")
"""The columns that say where a batch is, but for its position."""

Row = dict[str, Any]


@attrs.define
class Backup:
    """What the data source gives of a quorum's directories, as rows that can be changed."""

    tables: dict[str, list[Row]]

    def copy(self, cluster: str) -> Backup:
        """The same, as of another cluster: other directory ids, and other bytes in the batches.

        The values that are lists must be replaced, not changed.
        """
        mask = zlib.crc32(cluster.encode())

        def of_cluster(value: Any) -> Any:
            if isinstance(value, list):
                return [of_cluster(one) for one in value]
            if not isinstance(value, dict):
                return value
            made = {name: of_cluster(one) for name, one in value.items()}
            for name in ("directory_id", "voted_directory_id"):
                if made.get(name) is not None:
                    made[name] = f"{cluster}/{made[name]}"
            if made.get("content_crc") is not None:
                made["content_crc"] ^= mask
            return made

        tables = {
            name: [{**of_cluster(row), "cluster_id": cluster} for row in rows]
            for name, rows in self.tables.items()
            if name != "limits"
        }
        return Backup(tables)

    def find(self, table: str, node: int, **wanted: Any) -> Row:
        """The one row of that node with these values."""
        found = [
            row
            for row in self.tables[table]
            if row["node"] == node and all(row[name] == value for name, value in wanted.items())
        ]
        assert len(found) == 1, f"{len(found)} rows"
        return found[0]

    def batch(self, node: int, offset: int) -> Row:
        return self.find("batches", node, base_offset=offset)

    def remove(self, node: int, *tables: str) -> None:
        """All rows of that node, from all tables or from these."""
        for name in tables or self.tables:
            self.tables[name] = [row for row in self.tables[name] if row["node"] != node]

    def last_batch(self, node: int) -> Row:
        return max((row for row in self.tables["batches"] if row["node"] == node), key=lambda row: row["base_offset"])


Damage = Callable[[Backup], object]
DAMAGES: dict[str, tuple[str, Damage]] = {}
"""By a name of its own, the check that must find it, and what it does."""


def breaks(check: str) -> Callable[[Damage], Damage]:
    def register(damage: Damage) -> Damage:
        name = damage.__name__.removeprefix("_")
        assert name not in DAMAGES
        DAMAGES[name] = check, damage
        return damage

    return register


LAWFUL: dict[str, Damage] = {}
"""By name, what makes of a sound backup another sound one."""


def lawful(change: Damage) -> Damage:
    LAWFUL[change.__name__] = change
    return change


QUIET: dict[str, Damage] = {}
"""As LAWFUL, and without a warning."""


def quiet(change: Damage) -> Damage:
    QUIET[change.__name__] = change
    return lawful(change)


ALONE: dict[str, tuple[str, Damage]] = {}
"""As DAMAGES, but no other check may report an error: unreadable data proves nothing about anyone."""


def breaks_alone(check: str) -> Callable[[Damage], Damage]:
    def register(damage: Damage) -> Damage:
        ALONE[damage.__name__] = check, damage
        return breaks(check)(damage)

    return register
