"""Moments on the command line: an offset, or a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from kraft_trio.extras import needing

if TYPE_CHECKING:
    from kraft_trio.spark.directories.as_of import AsOf


class Moment(click.ParamType["AsOf"]):
    """An offset (exclusive), or a time (inclusive) in ISO 8601, in UTC if it names no zone."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> AsOf:
        with needing("audit", "kraft metadata"):
            from kraft_trio.spark.directories.as_of import AsOf
        text = str(value)
        if text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 2**63:
            return AsOf(int(text))
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r}, expected an offset, or a time as in 2026-11-28T03:14:00Z", param, ctx)
        zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        return AsOf(timestamp_us=round(zoned.timestamp() * 1_000_000))
