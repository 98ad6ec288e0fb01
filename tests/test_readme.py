"""README.md: its two commands come first, its program runs, and its picture of the tree shows what the code starts."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.ports import free_ports
from kraft_trio.actors.election.epoch_tasks import start_epoch_tasks
from kraft_trio.node_tree import NodeTree
from tests.support.programs import REPOSITORY, check_program, run

README = (REPOSITORY / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
FIRST_PORT = 9093


def picture(document: str) -> str:
    [block] = re.findall(r"^```\n(trio\.run →.*?)^```$", document, re.MULTILINE | re.DOTALL)
    return str(block)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of README.md, on ports that are free now."""
    [text] = [text for language, text in BLOCKS if language == "python"]
    for number, port in enumerate(free_ports(3)):
        shown = f"127.0.0.1:{FIRST_PORT + number}"
        assert shown in text
        text = text.replace(shown, f"127.0.0.1:{port}")
    path = tmp_path_factory.mktemp("readme") / "total.py"
    path.write_text(text)
    return path


def test_the_two_commands_come_first() -> None:
    _, first = BLOCKS[0]
    assert re.findall(r"^[\w -]*\w", first, re.MULTILINE) == ["pip install kraft-trio", "kraft quickstart"]
    assert README.index("```") < 20


@pytest.mark.acceptance
def test_the_program_adds_at_each_node_and_reads_the_sum(program: Path) -> None:
    additions = [f"node {node_id} adds 50: {node_id * 50}" for node_id in (1, 2, 3)]
    assert run([sys.executable, str(program)]).splitlines() == [*additions, "node 1 reads 150"]


def test_the_program_is_typed_and_formatted(program: Path) -> None:
    check_program(program)


def test_the_picture_shows_what_a_node_starts() -> None:
    upper, _, _ = picture(README).partition("└─ epoch nursery")
    drawn = set(re.findall(r"^   [├└]─ (.*?)(?: \(\w+\))?  ", upper, re.MULTILINE))
    assert {name for names in drawn for name in names.split(", ")} == set(started_by(NodeTree.run))


def test_the_picture_shows_what_each_role_starts() -> None:
    _, _, lower = picture(README).partition("└─ epoch nursery")
    drawn = {
        frozenset(roles.split("/")): set(actors.split(", "))
        for roles, actors in re.findall(r"^ +[├└]─ ([\w/]+): +(.*)$", lower, re.MULTILINE)
    }
    [match] = [node for node in ast.walk(parsed(start_epoch_tasks)) if isinstance(node, ast.Match)]
    started = {roles_of(case.pattern): set(tasks_in(case)) for case in match.cases}
    assert drawn == started


def parsed(function: Callable[..., Any]) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(function)))


def roles_of(pattern: ast.pattern) -> frozenset[str]:
    """`Prospective() | Candidate()` as lower-case names."""
    classes = [node.cls for node in ast.walk(pattern) if isinstance(node, ast.MatchClass)]
    return frozenset(ast.unparse(one).lower() for one in classes)


def started_by(method: Callable[..., Any]) -> list[str]:
    return list(tasks_in(parsed(method)))


def tasks_in(tree: ast.AST) -> Iterator[str]:
    """The class of each actor that is given to a nursery, or the name of a method of the tree."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("nursery.start", "nursery.start_soon"):
            runs = [one.value for one in call.args if isinstance(one, ast.Attribute) and one.attr == "run"]
            yield class_of(runs[0], tree) if runs else ast.unparse(call.args[0]).removeprefix("self.")


def class_of(expression: ast.expr, tree: ast.AST) -> str:
    """The name of the class that makes what the expression names, in this function or in `NodeTree`."""
    if isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name):
        return expression.func.id
    name = ast.unparse(expression)
    for scope in (tree, parsed(NodeTree.__init__)):
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(name == ast.unparse(one) for target in targets for one in flattened(target)):
                    made = [one for one in ast.walk(node.value) if isinstance(one, ast.Call)]
                    if made:
                        return ast.unparse(made[0].func)
    member = inspect.getattr_static(NodeTree, name.removeprefix("self.").removesuffix("()"))
    function = member.fget if isinstance(member, property) else member
    return str(inspect.signature(function).return_annotation)


def flattened(target: ast.expr) -> list[ast.expr]:
    return list(target.elts) if isinstance(target, ast.Tuple) else [target]
