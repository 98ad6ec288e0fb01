"""The page is one small file that loads nothing and runs nothing but its own script."""

from __future__ import annotations

import base64
import hashlib
import re

from kraft_trio.dashboard.page import SCRIPTS, page

LARGEST_BYTES = 100_000


def test_the_page_is_small() -> None:
    assert len(page()) < LARGEST_BYTES


def test_the_page_needs_no_other_place() -> None:
    html = page().decode()
    assert "://" not in html
    assert not re.search(r"<(script|img|iframe|link)[^>]*\b(src|href)=\"(?!data:)", html)


def test_the_policy_allows_only_the_own_script_and_style() -> None:
    html = page().decode()
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'self'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [content] = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_what_nodes_say_is_never_markup() -> None:
    html = page().decode()
    for name in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
        assert name not in html
    assert "require-trusted-types-for 'script'" in html


def test_every_script_is_in_the_page() -> None:
    assert len(set(SCRIPTS)) == len(SCRIPTS) == 7
