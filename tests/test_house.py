"""The figures of `scripts/house`."""

from __future__ import annotations

from pathlib import Path

from scripts.structure import conversions, duplicates, package, passes, signals
from scripts.structure.documents import generated_words, words
from scripts.structure.house import House, table

TWICE = """
def first(file, /):
    '''Says something.'''
    lines = file.read()
    count = 0
    for line in lines:
        count += len(line) * 2
    return lines, count

def other(source: str, /) -> object:
    words = source.split()
    found = 17
    for word in words:
        found += size(word) * 9
    return words, found

def unlike(source, /):
    words = source.split()
    found = 17
    for word in words:
        found -= size(word) * 9
    return words, found

def short(source):
    return source

def brief(file):
    return file
"""


def test_sizes() -> None:
    sources = {"a.py": "x\n", "room/b.py": "x\n" * 3, "room/c.py": "x\n" * 451, "room/deep/d.py": "x\n"}
    assert package.lines_of(sources)["room/b.py"] == 3
    assert package.median_lines(sources) == 2
    assert package.long_files(sources) == {"room/c.py": 451}
    assert package.folders(sources) == {".": 1, "room": 2, "room/deep": 1}


def test_functions_of_equal_shape() -> None:
    groups = duplicates.same_shapes({"a.py": TWICE, "b.py": TWICE.split("def other", maxsplit=1)[0]})
    assert groups == [[("a.py", "first"), ("a.py", "other"), ("b.py", "first")]]
    assert duplicates.pairs(groups) == 3


def test_repeated_lines() -> None:
    seven = [f"line({number})" for number in range(7)]
    again = [*seven[:3], "", "import more", "    )", *(f"    {line}" for line in seven[3:])]
    sources = {
        "a.py": "\n".join(seven),
        "b.py": "\n".join(["more()", *again, "even_more()"]),
        "c.py": "\n".join(seven[:5]),
        "d.py": "same()\n" * 11,
        "e.py": "alike()\n" * 12,
    }
    assert duplicates.repeated_lines(sources) == {"b.py": 7, "e.py": 6}


def test_signals() -> None:
    text = """
import trio
from messages import Event
from trio.lowlevel import ParkingLot

class Lane:
    def __init__(self):
        self.wanted = trio.Event()
        self.again = trio.Event()
        self.sender, self.inbox = trio.open_memory_channel[int](1)

    async def wait(self):
        await trio.lowlevel.wait_task_rescheduled(self.leave)

def opened():
    return ParkingLot(), message.Event(), Event()

CHANGED = trio.Lock
"""
    found = signals.signals({"lane.py": text, "simulation/lane.py": text})
    assert found == [
        ("lane.py", "Lane", "Event"),
        ("lane.py", "Lane", "open_memory_channel"),
        ("lane.py", "Lane", "wait_task_rescheduled"),
        ("lane.py", "opened", "ParkingLot"),
    ]
    assert signals.mechanisms(found) == {("lane.py", "Lane")}


def test_conversions() -> None:
    text = """
def _fields_of_request(request: Request, version: int) -> Fields: ...
def _request_of_fields(fields: Fields, version: int) -> Request: ...
def _keys(*, replicas: Sequence[Fields]) -> list[int]: ...
def _is_plain(request: Request) -> bool: ...
API = Api(fields_of_response=lambda response, _: {}, error_response=lambda error, _: Response(error))
"""
    text += """
Listeners = Annotated[Endpoints, Via(Pairs, read=Endpoints, write="{}.items()")]
Sent = Annotated[Key, Via(Int32, write=lambda key: key.id)]
"""
    found = conversions.conversions({"wire/apis/vote.py": text, "wire/schema.py": text})
    assert [name for _, name in found] == [
        "Endpoints",
        "_fields_of_request",
        "_keys",
        "_request_of_fields",
        "fields_of_response",
        "lambda key: key.id",
    ]


def test_words(tmp_path: Path) -> None:
    counted = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", str(Path("docs", "deep", "MORE.md"))]
    for name in (*counted, "NOTES.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# One\n\n| two | three | 4 |\n")
    (tmp_path / "docs" / "TABLE.md").write_text("# One\n\n<!-- generated: x -->\ntwo three\n<!-- end -->\nfour\n")
    assert words(tmp_path) == {**dict.fromkeys(counted, 4), str(Path("docs", "TABLE.md")): 5}
    assert generated_words(tmp_path) == {str(Path("docs", "TABLE.md")): 2}


def test_table_with_and_without_before() -> None:
    now, before = House({"lines": "70", "files of one vote": "12"}, {}), House({"lines": "80,000"}, {})
    assert table(now) == "\n".join(
        [
            "| what              | now |",
            "|-------------------|-----|",
            "| lines             | 70  |",
            "| files of one vote | 12  |",
        ]
    )
    assert [line.split(" | ")[1].strip() for line in table(now, before).splitlines()[2:]] == ["80,000", "unknown"]


def test_append_passes_files_of_the_nodes() -> None:
    append = passes.measure("append", runs=1)["append"]
    assert {"node.py", "storage/segments/log_append.py"} <= append.there <= append.anywhere
    assert "protocol/high_watermark.py" in append.there
    followers = append.files.keys() - {append.asked}
    assert all("storage/segments/log_append.py" in append.files[node] for node in followers)
    assert not any(file.startswith(("simulation/", "testing/")) for file in append.anywhere)
