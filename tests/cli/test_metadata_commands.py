"""`kraft metadata`: what is printed of directories whose history is known."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from kraft_trio.cli import run
from kraft_trio.metadata.entities import ENTITIES
from kraft_trio.wire import metadata_schemas as schemas
from tests.metadata.test_history import TOPIC, broker, changed, partition
from tests.spark.directories import make_node
from tests.support.metadata_histories import framed
from tests.support.metadata_logs import batch_of, log_of

SHORT = (TOPIC, partition(0), partition(1), changed(0, isr=(1,)), broker(), changed(1, leader=2))


@pytest.fixture
def short(tmp_path: Path) -> str:
    """The directory of node 1.  Offset 0 elects node 3, and SHORT follows."""
    return str(make_node(tmp_path, 1, (0, log_of([framed(one) for one in SHORT]))))


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Any:
    def say(*arguments: str, code: int = 0) -> str:
        assert run(["metadata", *arguments]) == code
        done = capsys.readouterr()
        return done.out if code in (0, 1) and done.out else done.err

    return say


def test_a_table_for_people(short: str, said: Any) -> None:
    assert said("partitions", short).splitlines() == [
        "topic   partition_id  leader  leader_epoch  replicas  isr  eligible_leader_replicas",
        "orders  0             1       3             1,2       1",
        "orders  1             2       4             1,2       1,2",
    ]


def test_a_moment_is_an_offset_or_a_time(short: str, said: Any) -> None:
    def isr(moment: str) -> Any:
        return json.loads(said("partitions", short, "--json", "--as-of", moment).splitlines()[0])["isr"]

    assert (isr("4"), isr("5")) == ([1, 2], [1])
    assert isr("2025-11-24T16:00:00.003Z") == [1, 2]
    assert isr("2025-11-24 16:00:00.004") == [1]
    assert "expected an offset, or a time as in" in said("topics", short, "--as-of", "yesterday", code=2)


def test_conditions_and_queries_are_sql(short: str, said: Any) -> None:
    few = said("partitions", short, "--where", "len(isr) < len(replicas)", "--csv")
    assert [row["partition_id"] for row in csv.DictReader(io.StringIO(few))] == ["0"]
    query = "SELECT p.topic, count(*) n FROM partitions p JOIN topics t ON t.name = p.topic GROUP BY 1"
    assert json.loads(said("sql", query, short, "--json")) == {"topic": "orders", "n": 2}
    assert json.loads(
        said("sql", "SELECT count(*) n FROM changes WHERE list_contains(changed, 'isr')", short, "--json")
    )
    assert 'column "shoes" not found' in said("partitions", short, "--where", "shoes = 1", code=1)
    unknown = said("sql", "SELECT *\nFROM shoes", short, code=1)
    assert "SELECT * FROM shoes: Catalog Error: Table with name shoes does not exist! The tables are topics," in unknown
    assert "Candidate bindings: " in said("sql", "SELECT isr FROM changes", short, code=1)


def test_a_query_may_begin_with_a_comment(short: str, said: Any) -> None:
    for comment in ("-- which?", "--which?"):
        assert said("sql", f"{comment}\nSELECT name FROM topics", short) == "name\norders\n"
    assert "No such option" in said("sql", "--names", "SELECT name FROM topics", short, code=2)


def test_nothing_is_said_to_be_nothing(short: str, said: Any) -> None:
    assert said("client-quotas", short) == "no client quotas\n"
    assert said("sql", "SELECT * FROM topics WHERE name = 'shoes'", short) == "no rows\n"
    assert said("changes", short, "--key", "shoes") == "no changes\n"
    assert said("diff", short, "--from", "5", "--to", "5") == "no differences\n"
    assert said("scram", short, "--csv") == "name,mechanism,iterations\n"
    assert said("scram", short, "--json") == ""


def test_a_query_reads_no_files(short: str, tmp_path: Path, said: Any) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    assert "disabled" in said("sql", f"SELECT * FROM read_csv('{secret}')", short, code=1)
    assert "disabled" in said("topics", short, "--where", f"name IN (SELECT a FROM read_csv('{secret}'))", code=1)


def test_changes_say_who_and_what(short: str, said: Any) -> None:
    lines = said("changes", short, "--key", "orders-0").splitlines()
    assert lines[1] == (
        "4 2025-11-24 16:00:00.004Z partitions orders-0 update by 3 isr: 1,2 → 1 partition_epoch: 5 → 6"
    )
    since = said("changes", short, "--since", "2025-11-24T16:00:00.004Z", "--json").splitlines()
    assert [json.loads(line)["offset"] for line in since] == [5, 6]
    assert [
        json.loads(line)["key"] for line in said("changes", short, "--entity", "brokers", "--json").splitlines()
    ] == ["1"]
    assert said("changes", short, "--until", "2").count("\n") == 1


def test_moments_and_replicas_are_compared(short: str, tmp_path: Path, said: Any) -> None:
    assert said("diff", short, "--from", "4", "--to", "5", code=1) == (
        "partitions orders-0 update isr: 1,2 → 1 partition_epoch: 5 → 6\n"
    )
    values = [framed(one) for one in (*SHORT[:3], changed(0, isr=(2,)), *SHORT[4:])]
    other = str(make_node(tmp_path, 2, (0, log_of(values))))
    [difference] = said("diff", short, other, "--json", code=1).splitlines()
    assert json.loads(difference)["changed"] == ["isr"]
    behind = str(make_node(tmp_path, 3, (0, log_of([framed(one) for one in SHORT[:3]]))))
    assert said("diff", short, behind) == "no differences\n"
    assert "expected two directories, or the moments" in said("diff", short, code=1)


def test_the_furthest_replica_is_shown(short: str, tmp_path: Path, said: Any) -> None:
    behind = str(make_node(tmp_path, 2, (0, log_of([framed(TOPIC)]))))
    assert said("partitions", behind, short).count("\n") == 3
    deleted = log_of([framed(TOPIC)]) + batch_of(2, [framed(schemas.RemoveTopicRecord(TOPIC.topic_id))], epoch=2)
    newer = str(make_node(tmp_path, 3, (0, deleted)))
    assert said("topics", short, behind, newer) == "no topics\n"


def test_a_parquet_file_has_typed_columns(short: str, tmp_path: Path, said: Any) -> None:
    said("partitions", short, "--parquet", str(tmp_path / "p.parquet"))
    found = pyarrow.parquet.read_table(tmp_path / "p.parquet").to_pylist()
    assert [row["isr"] for row in found] == [[1], [1, 2]]
    assert found[0]["directories"] == ["AAAAAAAAAAAAAAAAAAAAAA"] * 2


def test_what_cannot_be_applied_is_told_and_the_rest_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = make_node(tmp_path, 1, (0, log_of([framed(one) for one in (TOPIC, partition(0), changed(3))])))
    assert run(["metadata", "partitions", str(directory), "--json"]) == 1
    done = capsys.readouterr()
    assert json.loads(done.out)["topic"] == "orders"
    assert "the topic orders has no partition 3" in done.err


def test_no_directory_is_an_error(tmp_path: Path, said: Any) -> None:
    assert "none: cannot be read: No such file or directory" in said("topics", str(tmp_path / "none"), code=1)


@pytest.mark.parametrize("name", [*(entity.replace("_", "-") for entity in ENTITIES), "changes"])
def test_the_condition_in_the_help_holds_for_the_table(name: str, short: str, said: Any) -> None:
    [condition] = re.findall(r'as in "(.*?)"', " ".join(said(name, "--help").split()))
    said(name, short, "--where", condition)


REPOSITORY = Path(__file__).parents[2]
QUESTIONS = (REPOSITORY / "docs" / "how-to" / "query-metadata.md").read_text()
SAMPLE = "examples/metadata/controller-3"


def test_the_questions_of_the_page_have_its_answers(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    blocks = re.findall(r"^ +```sql\n(.*?)^ +```\n +```text\n(.*?)^ +```", QUESTIONS, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 10
    for query, answer in blocks:
        assert said("sql", query, SAMPLE) == textwrap.dedent(answer)
        assert len(answer.splitlines()) > 1, "there are rows"


def test_the_commands_of_the_page_show_something(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    pages = [shlex.split(line)[2:] for line in QUESTIONS.splitlines() if re.match("kraft metadata .* ?[$]DIR", line)]
    shown = [[word.replace("$DIR", SAMPLE) for word in words] for words in pages if words[0] not in ("sql", "report")]
    assert len(shown) == 5
    for words in shown:
        assert said(*words, code=1 if words[0] == "diff" else 0).count("\n") > 1
    [query] = re.findall(r"\$\(cat (.*?)\)", QUESTIONS)
    assert said("sql", (REPOSITORY / query).read_text(), SAMPLE)


def test_csv_controls_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = schemas.ConfigRecord(4, "1", "advertised.listeners", "\x1b[2J")
    directory = str(make_node(tmp_path, 1, (0, log_of([framed(config)]))))
    assert run(["metadata", "configs", directory, "--csv"]) == 0
    assert "\x1b[2J" in capsys.readouterr().out, "a file has the value as it is"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert run(["metadata", "configs", directory, "--csv"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_command_does_without_pandas(short: str) -> None:
    """Importing it takes longer than reading a small cluster."""
    program = "import sys, kraft_trio.cli as cli\ntry: cli.main()\nfinally: assert 'pandas' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", program, "metadata", "topics", short], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.split()) == (0, ["name", "topic_id", "orders", "AAAAEAAAAAAAAAAAAAAAAA"])
