"""How Sphinx makes a site of the pages and the docstrings: scripts/docs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx

REPOSITORY = Path(__file__).parent.parent
HOW_TO = (
    *("start-a-quorum", "watch", "dashboard", "secure", "change-voters", "snapshots", "recover", "runbook", "witness"),
    *("lead", "asyncio-and-threads", "kafka-clients", "test-a-state-machine", "search-seeds", "check-histories"),
    *("key-value-store", "query-metadata", "query-with-spark", "stream-with-spark", "write-with-spark"),
    *("spark-kafka-connector", "audit-with-spark", "deploy-spark"),
)
"""As readers need them; others follow."""
KINDS = {
    "Start": "docs/start/*",
    "How-to": "\n".join(
        f"docs/how-to/{page}"
        for page in (
            *HOW_TO,
            *sorted({path.stem for path in (REPOSITORY / "docs" / "how-to").glob("*.md")} - {*HOW_TO}),
        )
    ),
    "Reference": "docs/reference/*",
    "API": "docs/reference/api/*",
    "Explanation": "docs/explanation/*\nspec/README",
    "Project": "CONTRIBUTING\nSECURITY\nCHANGELOG\ndeploy/README\nbenchmarks/*",
}

project = "kraft-trio"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "docs/**",
    "spec/README.md",
    "deploy/README.md",
    "benchmarks/*.md",
]
# What is pruned here is never walked through.
exclude_patterns = [
    f"{path.name}{'/**' * deep}"
    for path in REPOSITORY.iterdir()
    if path.is_dir() and path.name not in {"docs", "spec", "deploy", "benchmarks"}
    for deep in (False, True)
]
myst_heading_anchors = 4
highlight_language = "none"
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
html_theme = "furo"
html_title = "kraft-trio"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False


def add_navigation(app: Sphinx, name: str, content: list[str]) -> None:
    """README.md is the first page; the pages of each kind are listed at the side."""
    if name == root_doc:
        for kind, pages in KINDS.items():
            content[0] += f"\n```{{toctree}}\n:caption: {kind}\n:hidden:\n:titlesonly:\n:glob:\n\n{pages}\n```\n"
    content[0] = re.sub(
        r"```mermaid\n\S+\n(.*?)```\n", lambda diagram: as_table(diagram[1]), content[0], flags=re.DOTALL
    )


def as_table(diagram: str) -> str:
    """A state diagram as a table, because a browser without network draws none."""
    rows = re.findall(r"^ *(\w+) --> (\w+): (.*)$", diagram, re.MULTILINE)
    return "| from | event | to |\n|---|---|---|\n" + "".join(f"| {a} | {event} | {b} |\n" for a, b, event in rows)


def copy_first_page(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        shutil.copy(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_navigation)
    app.connect("build-finished", copy_first_page)
