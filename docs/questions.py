"""The questions about Kafka's metadata with their SQL, and what `kraft metadata sql` answers of the sample."""

from __future__ import annotations

import io
import textwrap
from contextlib import redirect_stdout
from pathlib import Path

from kraft_trio.cli import run

EXAMPLE = Path(__file__).parents[1] / "examples" / "metadata"
SAMPLE = EXAMPLE / "controller-3"
_INDENT = "    "


def questions() -> str:
    """A numbered list: each file's comment, its query, and the answer."""
    return "".join(map(_question, sorted((EXAMPLE / "questions").glob("*.sql"))))


def _question(path: Path) -> str:
    lines = path.read_text().splitlines(keepends=True)
    comment = [line.removeprefix("-- ").strip() for line in lines if line.startswith("-- ")]
    query = "".join(line for line in lines if not line.startswith("-- "))
    number = int(path.name.partition("-")[0])
    blocks = f"```sql\n{query}```\n```text\n{_answer(query)}```\n"
    indented = "".join(f"{_INDENT}{line}" for line in blocks.splitlines(keepends=True))
    item = textwrap.fill(" ".join(comment), 120, initial_indent=f"{number}.".ljust(4), subsequent_indent=_INDENT)
    return f"{item}\n\n{indented}\n"


def _answer(query: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        assert run(["metadata", "sql", query, str(SAMPLE)]) == 0
    return printed.getvalue()
