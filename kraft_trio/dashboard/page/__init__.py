"""The page as one HTML file, put together from the files next to this one."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

SCRIPTS: Final = ("elements.js", "units.js", "msgpack.js", "timeline.js", "replay.js", "views.js", "main.js")
"""In the order in which they run."""


@cache
def page() -> bytes:
    """The page.  Its policy allows its own style and script by their digests, and connections to its own server."""
    style = _text("style.css")
    script = '"use strict";\n' + "".join(_text(name) for name in SCRIPTS)
    html = _text("page.html")
    for mark, content in {
        "{{style-digest}}": _digest(style),
        "{{script-digest}}": _digest(script),
        "{{style}}": style,
        "{{script}}": script,
    }.items():
        assert html.count(mark) == 1, f"{mark} is in page.html once"
        before, _, after = html.partition(mark)
        html = before + content + after
    return html.encode()


def _text(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
