"""What Spark passes to a source in addition to the user's options, for a table that `CREATE TABLE … USING kraft`
makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_PROVIDER: Final = "provider"
_RESERVED: Final = frozenset(
    {"collation", "comment", "external", "is_managed_location", "location", "owner", _PROVIDER}
)
"""Spark's own properties of a table, in lower case."""
_REPEATED: Final = "option."
"""Begins the name of an option that is passed a second time, as a property of the table."""
_LOCAL: Final = "file:"
"""Begins a path that Spark has turned into a URI: `file:/data`."""

NOT_HANDED_OVER: Final = (
    "of a table made by CREATE TABLE, Spark hands over neither OPTIONS nor LOCATION: use CREATE TEMPORARY VIEW name "
    "USING kraft OPTIONS (path '…'), or SELECT … FROM name WITH (path='…')"
)

NO_PATH: Final = f"no path: expected load(PATH), a directory of a replica or a glob of them; {NOT_HANDED_OVER}"


def options_of(source: str, given: Mapping[str, str]) -> dict[str, str]:
    """The user's options, without the properties that CREATE TABLE adds.

    They are recognised by `provider`, which names the source.  Without it, the options are returned as they are.
    """
    by_lower = {name.lower(): text for name, text in given.items()}
    if by_lower.get(_PROVIDER, "").lower() != source:
        return dict(given)
    options = {
        name: text
        for name, text in given.items()
        if name.lower() not in _RESERVED and not name.lower().startswith(_REPEATED)
    }
    for name, text in options.items():
        if name.lower() == "path" and text.startswith(f"{_LOCAL}/") and not text.startswith(f"{_LOCAL}//"):
            options[name] = text.removeprefix(_LOCAL)
    return options
