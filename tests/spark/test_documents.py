"""Each program in the documents about Spark is run by a test, as it stands there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.spark.documents import DOCUMENTS, programs

HERE = Path(__file__).parent
RUN_BY = {
    "Read": "test_source.py::test_what_the_document_shows",
    "In SQL": "test_sql.py::test_what_the_document_shows",
    "State as of an offset": "test_sql.py::test_what_the_document_shows",
    "Stream": "live/test_document.py::test_a_program_prints_what_it_says",
    "Watch a stream": "live/test_document.py::test_a_program_prints_what_it_says",
    "Write": "live/test_document.py::test_a_program_prints_what_it_says",
    "Spark's own Kafka connector": "live/test_kafka_connector.py::test_a_program_prints_what_it_says",
    "Spark on a cluster": "test_deployment.py::test_the_code_alone",
    "Audit": "audit/test_document.py::test_the_program_prints_what_it_says",
    "Traces": "test_trace_source.py::test_what_the_document_shows_runs_and_prints_such_a_table",
}
"""The test that runs the program below a heading."""


def test_every_program_is_run() -> None:
    assert [one.heading for one in programs()] == [*dict.fromkeys(one.heading for one in programs())], "one a heading"
    assert {one.heading for one in programs()} == RUN_BY.keys()


@pytest.mark.parametrize(("heading", "test"), RUN_BY.items(), ids=RUN_BY)
def test_the_test_is_there_and_knows_the_heading(heading: str, test: str) -> None:
    file, _, name = test.partition("::")
    text = (HERE / file).read_text()
    assert name in {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert f'"{heading}"' in text or f"## {heading}\\n" in text


def test_programs_are_whole() -> None:
    """They begin with their imports, and have an output or say why not."""
    for one in programs():
        compile(one.text, f"{one.document.name}: {one.heading}", "exec")
        assert "import " in one.text.splitlines()[0], one.heading
    assert DOCUMENTS
