"""What a search of seeds has reached, as lines of text and as a page with heat maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from itertools import product
from typing import Any, Final

from kraft_trio.simulation.campaign.campaign import violation_fields, violations
from kraft_trio.simulation.campaign.cells import CELLS, MESSAGES, SITUATIONS
from kraft_trio.simulation.campaign.reached import REACHABLE, name_of_cell, name_of_pair
from kraft_trio.simulation.campaign.search import Search
from kraft_trio.simulation.campaign.strata import name_of
from kraft_trio.simulation.facts.actions import ACTIONS, PAIRS, ROLES

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --line: #ccc; --none: #f3d9d6; --heat: 33, 102, 172; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8e8e8; --paper: #16181c; --line: #444; --none: #4a2624; --heat: 110, 170, 235; }
}
body { color: var(--ink); background: var(--paper); font: 15px/1.5 system-ui, sans-serif; margin: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th { font-weight: normal; text-align: left; padding: 0 .4rem; white-space: nowrap; }
thead th.turned { writing-mode: sideways-lr; text-align: left; padding: .4rem 0; }
td { width: 1.1rem; height: 1.1rem; border: 1px solid var(--line); padding: 0; }
td.none { background: var(--none); }
td.never { border: none; }
li { font-family: ui-monospace, monospace; font-size: 13px; }
"""


def lines(search: Search, seeds: range) -> Iterator[str]:
    """The state of a search in a few lines, and the command that repeats each failure."""
    left = sum(seed not in search.ended for seed in seeds)
    yield (
        f"{len(seeds) - left} of {len(seeds)} seeds, {search.virtual_s / 3600:.2f} virtual hours in "
        f"{search.real_s / 3600:.2f} hours of processes, {len(search.failures)} violations"
    )
    each = search.seeds_of_strata
    yield f"{len(each)} mixes of faults, each with {min(each)} to {max(each)} seeds"
    names = search.names_reached()
    for title, group in _groups():
        never = [name for name in group if name not in names]
        yield f"{title}: {len(group) - len(never)} of {len(group)}"
    if missing := [name for name in ACTIONS if name not in names]:
        yield f"actions never taken: {', '.join(missing)}"
    yield from violations(search.failures, search.runs.replay)


def fields(search: Search, seeds: range) -> dict[str, Any]:
    """The same as a JSON value."""
    names = search.names_reached()
    return {
        "seeds": len(seeds),
        "ended": sum(seed in search.ended for seed in seeds),
        "virtualSeconds": search.virtual_s,
        "seconds": search.real_s,
        "seedsOfMixes": search.seeds_of_strata,
        "reached": {title: sum(name in names for name in group) for title, group in _groups()},
        "reachable": {title: len(group) for title, group in _groups()},
        "actionsNeverTaken": [name for name in ACTIONS if name not in names],
        "violations": violation_fields(search.failures, search.runs.replay),
    }


def _groups() -> Iterator[tuple[str, Sequence[str]]]:
    yield "messages × roles × voters reached", [name_of_cell(cell) for cell in CELLS]
    yield "actions of the specification", list(ACTIONS)
    yield "neighbours of actions", [name_of_pair(pair) for pair in PAIRS]


def page(search: Search, seeds: range) -> str:
    """An HTML page that needs no other file."""
    numbers = {name: number for number, name in enumerate(REACHABLE)}

    def seeds_that_reach(name: str) -> int | None:
        return None if name not in numbers else search.reached[numbers[name]]

    most = max(1, len(search.ended))
    cells = _table(
        MESSAGES,
        [f"{role} · {situation}" for role, situation in product(ROLES, SITUATIONS)],
        lambda row, column: seeds_that_reach(name_of_cell((row, *_split(column)))),
        most,
    )
    pairs = _table(list(ACTIONS), list(ACTIONS), lambda *pair: seeds_that_reach(name_of_pair(pair)), most)
    mixes = [
        f"{name_of(stratum)}: {count}"
        for stratum, count in zip(search.runs.strata, search.seeds_of_strata, strict=True)
    ]
    reached = search.names_reached()
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Coverage of a search of seeds</title>",
        f"<style>{_STYLE}</style><h1>Coverage of a search of seeds</h1>",
        *(f"<p>{escape(line)}</p>" for line in lines(search, seeds)),
        "<h2>Messages by role and voters</h2><p>The darker, the more seeds. Red: never reached, or impossible.</p>",
        _list(f"{name}: {meaning}" for name, meaning in SITUATIONS.items()),
        f"<div class=wide>{cells}</div>",
        "<h2>Actions of the specification</h2><p>What a node did (row), and what it did next (column). "
        "Empty: impossible in these roles.</p>",
        f"<div class=wide>{pairs}</div>",
        "<h2>Seeds of each mix of faults</h2>",
        _list(mixes),
    ]
    for title, group in _groups():
        never = [name for name in group if name not in reached]
        parts += [f"<h2>Never: {escape(title)} ({len(never)})</h2>", _list(never)]
    return "\n".join(parts) + "\n"


def _split(column: str) -> tuple[str, str]:
    role, _, situation = column.partition(" · ")
    return role, situation


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def _table(rows: Sequence[str], columns: Sequence[str], count: Callable[[str, str], int | None], most: int) -> str:
    head = "".join(f"<th class=turned scope=col>{escape(column)}</th>" for column in columns)
    body = []
    for row in rows:
        cells = "".join(_cell(f"{row}, {column}", count(row, column), most) for column in columns)
        body.append(f"<tr><th scope=row>{escape(row)}</th>{cells}</tr>")
    return f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _cell(title: str, count: int | None, most: int) -> str:
    if count is None:
        return "<td class=never></td>"
    tip = f' title="{escape(title)}: {count} seeds"'
    if not count:
        return f"<td class=none{tip}></td>"
    heat = 0.15 + 0.85 * math.log1p(count) / math.log1p(most)
    return f'<td style="background: rgba(var(--heat), {heat:.2f})"{tip}></td>'
