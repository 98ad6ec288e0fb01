"""What the driver tells of the offsets of a write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kraft_trio.errors import ConfigError
from kraft_trio.spark.writing.identity import PartitionWrite, Write
from kraft_trio.spark.writing.offsets import Appended, write_offsets

OF = PartitionWrite(Write("q", 3), 0)


def test_the_offsets_of_a_task_are_those_of_its_batches() -> None:
    appended = Appended(OF)
    assert (appended.records, appended.first_offset, appended.last_offset) == (0, None, None)
    appended = appended.and_then(5, 100, is_repeated=True).and_then(3, 110, is_repeated=False)
    assert appended == Appended(OF, records=8, repeated=5, first_offset=100, last_offset=112)


def test_an_offset_that_the_log_has_forgotten_stays_unknown() -> None:
    appended = Appended(OF).and_then(5, None, is_repeated=True).and_then(3, 110, is_repeated=True)
    assert (appended.first_offset, appended.last_offset) == (None, 112)


@pytest.mark.parametrize("scheme", ["", "file://", "local://"])
def test_a_file_for_each_write(tmp_path: Path, scheme: str) -> None:
    """The last one of a name counts: it is of the attempt that has completed the write."""
    directory = f"{scheme}{tmp_path}/offsets"
    tasks = [Appended(PartitionWrite(Write("q", 3), partition), 5, 0, 100, 104) for partition in (1, 0)]
    write_offsets(directory, "3", tasks[:1])
    write_offsets(directory, "3", tasks)
    assert [path.name for path in (tmp_path / "offsets").iterdir()] == ["3.json"]
    told = json.loads((tmp_path / "offsets" / "3.json").read_text())["partitions"]
    assert [task["partition"] for task in told] == [0, 1]
    assert told[0] == {
        "partition": 0,
        "records": 5,
        "repeated": 0,
        "firstOffset": 100,
        "lastOffset": 104,
        "producerId": OF.producer_id,
        "producerEpoch": 3,
    }


def test_a_place_that_nobody_knows() -> None:
    with pytest.raises(ConfigError, match="offsetsPath=nowhere://x: "):
        write_offsets("nowhere://x", "3", [Appended(OF)])
