"""What holds for every command of `kraft`: its help, its variables, its completion, its errors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from kraft_trio.cli import kraft, run
from kraft_trio.cli.terminal.layout import table
from kraft_trio.cli.terminal.paths import NamedPath
from kraft_trio.cli.terminal.variables import FromVariable
from kraft_trio.config.properties import VARIABLES_OF_COMMANDS

REPOSITORY = Path(__file__).parents[2]
PARENT = click.Context(kraft, info_name="kraft", **kraft.context_settings)


def tree(command: click.Command, context: click.Context) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    yield tuple(context.command_path.split()[1:]), context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from tree(below, click.Context(below, parent=context, info_name=name))


EVERY = dict(tree(kraft, PARENT))
PARAMETERS = [(words, one) for words, context in EVERY.items() for one in context.command.params]
every = pytest.mark.parametrize("words", EVERY, ids=" ".join)


@every
def test_the_help_fits_a_terminal(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*words, "--help"]) == 0
    told = capsys.readouterr().out
    assert run(["help", *words]) == 0
    assert capsys.readouterr().out == told
    assert EVERY[words].help_option_names == ["-h", "--help"]
    assert [line for line in told.splitlines() if len(line) > 79] == []
    assert re.match(r"Usage: kraft .*\n( .*\n)*\n  [A-Z].*\.", told), "the summary is a sentence on a line"
    assert "...\n" not in told.partition("\nCommands:\n")[2], "the list of commands has whole summaries"
    monkeypatch.setenv("COLUMNS", "20")
    assert run([*words, "--help"]) == 0


@every
def test_every_option_is_explained(words: tuple[str, ...]) -> None:
    unexplained = [one.opts for one in EVERY[words].command.params if isinstance(one, click.Option) and not one.help]
    assert unexplained == []


def test_the_variables_of_options_are_known_to_the_configuration() -> None:
    assert {one.envvar for _, one in PARAMETERS if one.envvar} == VARIABLES_OF_COMMANDS
    assert all(isinstance(one, FromVariable) for _, one in PARAMETERS if one.envvar)


def test_no_variable_sets_what_destroys_or_names_what_goes() -> None:
    has_one = {words for words, one in PARAMETERS if one.envvar and one.name not in _HARMLESS}
    assert has_one == {("storage", "format")}, "whose cluster id overwrites nothing"


_HARMLESS = {
    *("config_path", "command_config", "bootstrap_controller", "nodes"),
    *("endpoints", "log_format", "log_level"),
}


@pytest.mark.parametrize("url", ["", "[::1", "file:///etc", "http://a..b", "http://ü", "h:99999999", "http://\udcff"])
def test_addresses_of_gateways_are_checked(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["kv", "--endpoints", url, "status"]) == 1
    assert re.match(r"kraft: error: --endpoints .*; expected URLs such as http", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("kv --timeout nan status", "'nan' is not a number of seconds."),
        ("kv --timeout inf status", "inf is not in the range"),
        ("kv get --rev 9223372036854775808 key", "is not a whole number from 0 to 9223372036854775807."),
        ("kv lease revoke 10000000000000000", "is not a hexadecimal number of 64 bits"),
        ("audit --max-lag 9223372036854775808 dir", "is not a whole number from 0 to 9223372036854775807."),
        ("audit --expect-voters 2147483648 dir", "is not a whole number from 1 to 2147483647."),
    ],
)
def test_numbers_that_nothing_has_are_refused(words: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words.split()) == 2
    assert reason in capsys.readouterr().err


def test_a_query_that_is_no_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metadata", "sql", "select '\udcff'", "none"]) == 1
    assert capsys.readouterr().err == "kraft: error: select '\\udcff': not UTF-8; expected SQL\n"


def test_a_file_without_an_end_is_no_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["storage", "info", "-c", "/dev/zero"]) == 1
    error = "/dev/zero: not a .properties file: more than 1048576 bytes"
    assert capsys.readouterr().err == f"kraft: error: {error}\n"


def test_what_prints_a_table_or_a_report_prints_json_too() -> None:
    """The others have no report: they say in a line or two what they did, or print one word."""
    leaves = {words for words, context in EVERY.items() if not isinstance(context.command, click.Group)}
    without = leaves - {words for words, one in PARAMETERS if "--json" in one.opts}
    assert {" ".join(words) for words in without} == {
        *("dashboard", "server start", "quickstart", "metadata report", "records append"),
        *("storage format", "storage add-scram", "storage random-uuid", "snapshot restore"),
        *(f"features {change}" for change in ("upgrade", "downgrade", "disable")),
        *(f"metadata-quorum {change}-controller" for change in ("add", "remove")),
        *(f"metadata-quorum {change}" for change in ("replace", "reassign", "transfer-leadership")),
    }


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        ("features version-mapping -r 4.1", {"release": "4.1"}),
        ("features feature-dependencies -f transaction.version=2", {"feature": "transaction.version", "level": 2}),
        ("storage info", {"clusterId": "ySvf4iIwQ5a13rqtClr5pg", "problems": [], "segments": 0}),
        (
            "storage recover --unsafe-endpoints 1@CONTROLLER://b:9093",
            {"clusterId": "ySvf4iIwQ5a13rqtClr5pg", "isDone": False},
        ),
        ("snapshot verify {snapshot}", {"snapshotId": {"offset": 0, "epoch": 0}, "records": 0, "kraftVersion": 1}),
        ("log verify {log}", {"problems": []}),
        ("dump-log {snapshot}", {"baseOffset": 0}),
        ("simulate --seed 1 --time 1s --faults none", {"seeds": 1, "violations": []}),
        ("simulate {script}", {"asExpected": True, "failure": None}),
    ],
)
def test_json_is_all_that_is_on_stdout(
    words: str,
    fields: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KRAFT_CONFIG", node(tmp_path, "1"))
    assert run(["storage", "format", "-t", "ySvf4iIwQ5a13rqtClr5pg", "--standalone"]) == 0
    script = tmp_path / "empty.scenario"
    script.write_text("voters 1\nwait 1s\n")
    log = tmp_path / "log" / "__cluster_metadata-0"
    places = {"log": log, "script": script, "snapshot": next(log.glob("*.checkpoint"))}
    capsys.readouterr()
    code = run([*words.format(**places).split(), "--json"])
    assert code == (1 if "recover" in words else 0)
    first, *others = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert not others or words.startswith("dump-log")
    [value] = first if isinstance(first, list) else [first]
    assert fields.items() <= value.items()


def test_a_wide_table_becomes_lines_on_a_narrow_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("NodeId", "DirectoryId"), ("1", "A" * 22), ("2", "B" * 22)]
    whole = f"NodeId  DirectoryId\n1       {'A' * 22}\n2       {'B' * 22}"
    monkeypatch.setenv("COLUMNS", "29")
    assert table(rows) == whole
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    lines = [f"NodeId:                 1\nDirectoryId:            {'A' * 22}", ""]
    assert table(rows).startswith("\n".join(lines))
    assert table(rows).endswith(f"DirectoryId:            {'B' * 22}")
    monkeypatch.setenv("COLUMNS", "30")
    assert table(rows) == whole


def test_files_and_directories_are_completed() -> None:
    named = [one for _, one in PARAMETERS if re.fullmatch(r"\[?(FILE|DIR)\]?…?", one.metavar or "")]
    assert len(named) > 20
    assert [one.name for one in named if not isinstance(one.type, NamedPath)] == []


@pytest.mark.parametrize(
    ("given", "incomplete", "found"),
    [
        ([], "st", {"storage"}),
        (["storage"], "re", {"recover"}),
        (["storage", "format"], "--clu", {"--cluster-id"}),
        (["server", "start", "--log-format"], "", {"console", "json"}),
    ],
)
def test_what_is_completed(given: list[str], incomplete: str, found: set[str]) -> None:
    completions = BashComplete(kraft, {}, "kraft", "_KRAFT_COMPLETE").get_completions(given, incomplete)
    assert {one.value for one in completions} == found


def test_the_completion_of_commands_has_all_and_imports_none(tmp_path: Path) -> None:
    """Bash calls the function of the script as it would for a word that is being typed."""
    bash = shutil.which("bash")
    is_new = "((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404))"
    if bash is None or subprocess.run([bash, "-c", is_new], check=False).returncode:
        pytest.skip("click's script needs bash 4.4 or newer")
    program = tmp_path / "kraft"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys; from kraft_trio.cli import main\n"
        "try: main()\n"
        "finally: print({'trio', 'attrs', 'structlog', 'rich'} & sys.modules.keys(), file=sys.stderr)"
    )
    program.chmod(0o755)
    script = """
        eval "$(_KRAFT_COMPLETE=bash_source kraft 2> /dev/null)"
        COMP_WORDS=(kraft '') COMP_CWORD=1
        _kraft_completion kraft
        echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        [bash, "-c", script],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == kraft.list_commands(PARENT)
    assert done.stderr == "set()\n"


def node(tmp_path: Path, node_id: str) -> str:
    file = tmp_path / "node.properties"
    file.write_text(f"node.id={node_id}\nmetadata.log.dir={tmp_path / 'log'}\nlisteners=CONTROLLER://localhost:9093\n")
    return str(file)


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KRAFT_CONFIG", node(tmp_path, "1"))
    monkeypatch.setenv("KRAFT_CLUSTER_ID", "ySvf4iIwQ5a13rqtClr5pg")
    monkeypatch.setenv("KRAFT_NODE_ID", "7")
    assert run(["storage", "format", "-s"]) == 0
    out, err = capsys.readouterr()
    assert "cluster id ySvf4iIwQ5a13rqtClr5pg, node id 7" in out
    assert f"kraft: warning: KRAFT_NODE_ID: wins over node.id of {tmp_path / 'node.properties'}\n" in err
    assert run(["storage", "info", "-c", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == f"kraft: error: {tmp_path / 'none'}: cannot be read: No such file or directory\n"
    monkeypatch.delenv("KRAFT_NODE_ID")
    assert run(["metrics", "--override", "node.id=x"]) == 1
    assert "error: --override node.id=x; expected" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value", "words", "error"),
    [
        (
            "KRAFT_CONFIG",
            "/none",
            "storage info",
            "/none: cannot be read: No such file or directory (from KRAFT_CONFIG)",
        ),
        ("KRAFT_NODE_ID", "x", "storage info -c {node}", "KRAFT_NODE_ID: node.id=x; expected a whole number"),
        ("KRAFT_LOG_LEVEL", "x", "server start -c {node}", "Invalid value for KRAFT_LOG_LEVEL: 'x' is not one of"),
        ("KRAFT_LOG_LEVEL", "x", "server start -c {node} --log-level y", "Invalid value for '--log-level': 'y' is not"),
        (
            "KRAFT_BOOTSTRAP_CONTROLLER",
            "a",
            "features describe",
            "--bootstrap-controller a: 'a' has no port (host:port expected) (from KRAFT_BOOTSTRAP_CONTROLLER)",
        ),
        ("KRAFT_BOOTSTRAP_CONTROLLER", "a", "features --bootstrap-server b describe", "--bootstrap-server b: 'b' has"),
        ("KRAFT_BOOTSTRAP_CONTROLLER", "a", "dashboard --bootstrap-server b", "--bootstrap-server b: 'b' has"),
        ("KRAFT_BOOTSTRAP_CONTROLLER", "a", "snapshot take -c none", "none: cannot be read"),
        ("KRAFT_BOOTSTRAP_CONTROLLER", "a", "records read", "--bootstrap-server a: 'a' has no port"),
        ("KRAFT_COMMAND_CONFIG", "/none", "records read --bootstrap-server a:1", "/none: cannot be read"),
    ],
)
def test_an_error_names_the_variable_that_is_wrong(
    variable: str,
    value: str,
    words: str,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, value)
    assert run(words.format(node=node(tmp_path, "1")).split()) != 0
    assert capsys.readouterr().err.startswith(f"kraft: error: {error}")


def test_a_file_on_the_command_line_wins_over_the_variable_that_names_a_quorum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KRAFT_BOOTSTRAP_CONTROLLER", "localhost:2")
    path = node(tmp_path, "1")
    assert run(["storage", "format", "-c", path, "-N", "-t", "ySvf4iIwQ5a13rqtClr5pg"]) == 0
    with open(path, "a") as file:
        file.write("controller.quorum.bootstrap.servers=localhost:1\n")
    for command in (["add-controller"], ["replace", "--timeout-ms", "1"]):
        capsys.readouterr()
        assert run(["metadata-quorum", "--timeout-ms", "1", *command, "-c", path]) == 1
        out, err = capsys.readouterr()
        assert "localhost:1" in out + err
        assert "localhost:2" not in out + err
        assert "KRAFT_" not in err


@pytest.mark.parametrize(
    "words",
    [
        "metadata-quorum --timeout-ms 1 remove-controller -i 3",
        "metadata-quorum --timeout-ms 1 add-controller -i 3",
        "metadata-quorum --timeout-ms 1 replace -i 3",
        "metadata-quorum --timeout-ms 1 reassign --to 1",
        "metadata-quorum --timeout-ms 1 transfer-leadership --to 3",
        "features --timeout-ms 1 upgrade",
    ],
)
def test_a_change_tells_that_a_variable_names_the_quorum(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be left from work on another one, whose controllers have the same ids."""
    monkeypatch.setenv("KRAFT_BOOTSTRAP_CONTROLLER", "localhost:2")
    assert run(words.split()) == 1
    note = "kraft: note: KRAFT_BOOTSTRAP_CONTROLLER names the quorum: localhost:2\n"
    assert capsys.readouterr().err.startswith(note)


def test_a_mistyped_variable_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KRAFT_NODEID", "7")
    run(["storage", "info", "-c", node(tmp_path, "1")])
    warning = "KRAFT_NODEID: no such variable, ignored; the nearest known one is KRAFT_NODE_ID"
    assert f"kraft: warning: {warning}\n" in capsys.readouterr().err
