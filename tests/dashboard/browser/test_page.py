"""What the page shows of a quorum, in each colour scheme and width, without an error and to everybody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.quorum import Quorum
from kraft_trio.cli import run
from tests.dashboard.browser.reader import Reader

Start = Callable[[Quorum], str]
Open = Callable[..., Reader]

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}},
}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN_AXE = (
    "rules => axe.run(document, {runOnly: rules}).then(found => found.violations.map(one => one.id + ' ' + one.help))"
)


def test_nobody_is_kept_out(quorum: Quorum, dashboard: Start, reader: Open, axe: Path) -> None:
    """axe-core finds no violation, also where something is wrong."""
    url = dashboard(quorum)
    quorum.nodes[3].kill()
    for look in LOOKS.values():
        opened = reader(url, bypass_csp=True, **look)  # the policy would not let axe-core in
        opened.sees("#findings li", "Voter 3 is offline")
        opened.sees("#epoch-list li", "Epoch")
        opened.page.click("summary")
        opened.page.add_script_tag(path=str(axe))
        assert opened.page.evaluate(RUN_AXE, RULES) == []


def test_no_look_is_wider_than_its_screen(quorum: Quorum, dashboard: Start, reader: Open) -> None:
    url = dashboard(quorum)
    for look in LOOKS.values():
        opened = reader(url, **look)
        opened.sees("#survival", "Survives 1 more failure now")
        width = opened.page.viewport_size["width"]
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_node_stands_beside_the_others(quorum: Quorum, dashboard: Start, reader: Open) -> None:
    opened = reader(dashboard(quorum))
    leader = quorum.leader().id
    opened.sees("#headline", f"Node {leader} leads epoch")
    for node_id in (1, 2, 3, 4):
        row = opened.sees("#claims-table tbody tr", f"Node {node_id}")
        assert str(leader) in row
        assert "≠" not in row
    for node_id in (1, 2, 3):
        opened.sees("#voters-table tbody tr:has-text('iB')", f"Voter {node_id}")  # the disk has GiB or MiB left
    opened.sees("#epoch-list li", f"node {leader} leads since")


def test_the_theme_can_be_chosen(quorum: Quorum, dashboard: Start, reader: Open) -> None:
    opened = reader(dashboard(quorum), color_scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = opened.page.evaluate(background)
    opened.click("#theme")
    assert opened.page.evaluate(background) == light
    opened.click("#theme")
    assert opened.page.evaluate(background) != light
    opened.page.reload()
    assert opened.page.evaluate(background) != light


def test_the_keyboard_reaches_everything(quorum: Quorum, dashboard: Start, reader: Open) -> None:
    opened = reader(dashboard(quorum))
    opened.sees("#findings li", "survives")
    reached = []
    for _ in range(12):
        opened.page.keyboard.press("Tab")
        reached.append(opened.page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert reached[:3] == ["A", "file", "theme"]
    assert "SUMMARY" in reached


def test_a_recorded_run_is_replayed(quorum: Quorum, dashboard: Start, reader: Open, tmp_path: Path) -> None:
    script, trace = tmp_path / "scenario.txt", tmp_path / "run.trace"
    script.write_text('voters 1 2 3\nelect 1\nappend "a"\nkill 1\nkill 2\nwait 5s\n')
    assert run(["simulate", str(script), "--trace", str(trace)]) == 0
    opened = reader(dashboard(quorum))
    opened.sees("#survival", "Survives 1 more failure now")
    opened.drop(trace)
    opened.sees("#replay-name", "simulated run")
    opened.sees("#headline", "Node 1 is named as leader of epoch 1")
    opened.sees("#findings li", "No leader: two of the voters 1, 2, 3 are needed, and one can be reached")
    opened.sees("#epoch-list li", "its process ended: killed")
    opened.page.focus("#moment")
    opened.page.keyboard.press("Home")
    opened.sees("#moment-time", "(1 of")
    opened.sees("#headline", "Nobody tells who leads")
    while "Node 1 leads epoch 1" not in opened.page.inner_text("#headline"):
        place = opened.page.inner_text("#moment-time")
        opened.click("#later")
        opened.page.locator("#moment-time").filter(has_not_text=place).wait_for()
    opened.click("#leave")
    opened.sees("#survival", "Survives 1 more failure now")


def test_a_file_that_is_no_trace_changes_nothing(
    quorum: Quorum, dashboard: Start, reader: Open, tmp_path: Path
) -> None:
    other = tmp_path / "photo.jpg"
    other.write_bytes(b"\xff\xd8\xff\xe0")
    opened = reader(dashboard(quorum))
    opened.sees("#survival", "Survives 1 more failure now")
    opened.drop(other)
    opened.sees("#replay-problem", "photo.jpg: not a trace")
    opened.click("#leave")
    opened.sees("#survival", "Survives 1 more failure now")
