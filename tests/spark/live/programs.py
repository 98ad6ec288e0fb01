"""Programs of the documents and the examples, run in the process of the tests, whose Spark session they find."""

from __future__ import annotations

import io
import runpy
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from tests.spark.live.to_parquet import NO_WORKER

ATTEMPTS = 5
"""How often a program is begun on a machine that is too busy for Spark to start its Python workers."""


def run_program(program: Path, *arguments: str) -> str:
    """What it prints when it is run to its end."""
    for attempt in range(ATTEMPTS):
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as output:
            patch.setattr("sys.argv", [program.name, *arguments])
            try:
                runpy.run_path(str(program), run_name="__main__")
            except StreamingQueryException as error:
                if NO_WORKER not in str(error) or attempt == ATTEMPTS - 1:
                    raise
            else:
                break
    return output.getvalue()
