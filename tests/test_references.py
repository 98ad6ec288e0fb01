"""Every reference resolves: links, anchors, files, invariants and rules that code or documentation names."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from kraft_trio.simulation.invariants import INVARIANTS

REPOSITORY = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "deploy/*.md", "spec/*.md")
    for path in REPOSITORY.glob(pattern)
)
CODE = [
    *(
        path
        for top in ("kraft_trio", "tests", "harness", "benchmarks", "examples")
        for path in (REPOSITORY / top).rglob("*.py")
    ),
    *(path for path in (REPOSITORY / "scripts").rglob("*") if path.is_file() and path.suffix in ("", ".py")),
    *REPOSITORY.glob("*.py"),
    *(REPOSITORY / "docs").glob("*.py"),
    *(REPOSITORY / "docs").glob("*.toml"),
    *(REPOSITORY / "kraft_trio").rglob("*.js"),
    *(path for path in (REPOSITORY / "deploy").rglob("*") if path.suffix in (".yml", ".yaml", ".service")),
    *(REPOSITORY / "tests" / "scenarios").glob("*.txt"),
]
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
_CITED_DOCUMENT = re.compile(r"\b(docs/[\w/-]+\.md|(?<!/)(?:README|CONTRIBUTING|CHANGELOG)\.md)(?:#([\w-]+))?")
_PATH = re.compile(
    r"`((?:kraft_trio|tests|docs|scripts|harness|benchmarks|examples)/[\w./-]+|\w+(?:/\w+)+\.(?:py|md))`"
)
_INVARIANT = re.compile(r"\b[Ii]nvariants? ((?:(?:, | and )?(?:\d+|[A-Z][a-z]+[A-Z]\w+))+)")
_SCENARIO = re.compile(r"\bS(\d{1,2})\b")
_FILE = re.compile(
    r"(?<![\w./-])((?:kraft_trio|tests|docs|scripts|harness|benchmarks|examples)/[\w/-]*\w\.(?:py|md|txt))\b"
)
_RULE = re.compile(r"\brule (R\d+)\b")
_NAMED_DOCUMENT = re.compile(r"\b[A-Z][A-Z_]+\.md\b")


@cache
def text_of(path: Path) -> str:
    """A file's text with line breaks, indentation and comment signs reduced to single spaces."""
    return re.sub(r"\s*\n[ \t]*#?[ \t]*", " ", path.read_text())


@cache
def anchors(document: Path) -> frozenset[str]:
    """The anchors that GitHub gives to the headings of a document."""
    outside_blocks = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", outside_blocks, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings)


def names(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_links_lead_somewhere(document: Path) -> None:
    for _, link in _LINK.findall(document.read_text()):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = document if not path else (document.parent / path).resolve()
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_paths_that_are_named_exist(document: Path) -> None:
    roots = (REPOSITORY, REPOSITORY / "kraft_trio", REPOSITORY / "tests")
    for name in _PATH.findall(document.read_text()):
        assert any((root / name).exists() for root in roots), name


def test_documents_that_code_cites_have_that_heading() -> None:
    for path in CODE:
        for document, anchor in _CITED_DOCUMENT.findall(text_of(path)):
            assert (REPOSITORY / document).exists(), f"{names(path)}: {document}"
            assert not anchor or anchor in anchors(REPOSITORY / document), f"{names(path)}: {document}#{anchor}"


def test_documents_that_are_named_exist() -> None:
    known = {path.name for path in (*DOCUMENTS, *REPOSITORY.glob("*/README.md"), *REPOSITORY.glob("tests/**/*.md"))}
    for path in (*CODE, *DOCUMENTS):
        if not path.is_relative_to(REPOSITORY / "tests"):  # which write documents of their own
            assert set(_NAMED_DOCUMENT.findall(text_of(path))) <= known, names(path)


def test_files_that_code_cites_exist() -> None:
    for path in CODE:
        for file in _FILE.findall(text_of(path)):
            assert (REPOSITORY / file).exists(), f"{names(path)}: {file}"


def test_scenarios_that_are_named_exist() -> None:
    numbers = {int(path.name[1:3]) for path in (REPOSITORY / "tests" / "scenarios").glob("s??_*.txt")}
    for path in (*CODE, *DOCUMENTS):
        assert {int(number) for number in _SCENARIO.findall(text_of(path))} <= numbers, names(path)


def test_invariants_that_are_named_exist() -> None:
    known = {invariant.__name__ for invariant in INVARIANTS}
    printed = {str(number) for number in (0, *(invariant.number for invariant in INVARIANTS))}
    for path in (*CODE, *DOCUMENTS):
        # Tests quote what the simulator prints, which has the number; readers look for the name.
        known_here = known | printed if path.is_relative_to(REPOSITORY / "tests") else known
        for cited in _INVARIANT.findall(text_of(path)):
            assert set(re.split(", | and ", cited)) <= known_here, f"{names(path)}: {cited}"


def test_rules_that_are_named_are_explained() -> None:
    explained = set(re.findall(r"\*\*(R\d+), ", (REPOSITORY / "docs" / "explanation" / "architecture.md").read_text()))
    cited = {rule for path in (*CODE, *DOCUMENTS) for rule in _RULE.findall(text_of(path))}
    assert cited == explained == {"R1", "R2", "R3"}


def test_differences_from_kafka_are_referred_to_by_name() -> None:
    page = (REPOSITORY / "docs" / "reference" / "differences.md").read_text()
    rows = re.findall(r"^\| ([a-z][^|]*?) \|", page, re.MULTILINE)[1:]
    assert len(rows) == len(set(rows)) > 30
    for document in DOCUMENTS:
        for text, link in _LINK.findall(document.read_text()):
            if link.endswith("differences.md") and text != "differences":
                assert text in rows, document
