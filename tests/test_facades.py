"""`kraft_trio.aio` and `kraft_trio.sync` have each public name of the node, with the same arguments."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import kraft_trio
from kraft_trio import aio, sync
from tests.support.public_calls import public_calls

OF_THE_FACADE = {"fail_after"}

FACADES = pytest.mark.parametrize("facade", [aio, sync], ids=lambda facade: facade.__name__)

ATTRIBUTES = {"cluster_id", "config", "key"}
"""What Node has as attributes, and the facades as properties."""


def public_names(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def arguments(function: object) -> list[tuple[str, object, object]]:
    assert callable(function)
    parameters = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in parameters]


NOT_IN_FACADES = {
    "AdminClient",  # for operators: `kraft metadata-quorum`
    "LogClient",  # needs no node: Kafka's clients for asyncio and threads do the same
    "NodeMetrics",  # a part of the node
    "RecordReader",  # of LogClient
    "run_node",  # takes the process's signals, which belong to asyncio's loop or to the main thread
}
"""What waits, and has no counterpart."""


@FACADES
def test_whatever_waits_is_there_or_is_left_out_for_a_reason(facade: ModuleType) -> None:
    names = {name.partition(".")[0] for name in public_calls()} | {"open_node"}
    assert names - NOT_IN_FACADES == set(facade.__all__) - OF_THE_FACADE


@FACADES
def test_the_node_has_the_same_names(facade: ModuleType) -> None:
    assert public_names(facade.Node) == public_names(kraft_trio.Node) | ATTRIBUTES


@FACADES
def test_the_methods_have_the_same_arguments(facade: ModuleType) -> None:
    for name in public_names(kraft_trio.Node):
        method = inspect.getattr_static(kraft_trio.Node, name)
        theirs = inspect.getattr_static(facade.Node, name)
        assert isinstance(method, property) == isinstance(theirs, property), name
        if not isinstance(method, property):
            assert arguments(theirs) == arguments(method), name


@FACADES
def test_the_functions_have_the_same_arguments(facade: ModuleType) -> None:
    for name in ("open_node", "ensure_formatted"):
        assert arguments(getattr(facade, name)) == arguments(getattr(kraft_trio, name)), name


@FACADES
def test_a_wrong_argument_is_refused_by_the_call(facade: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"open_node\(\) got an unexpected keyword argument 'stat_machine'"):
        facade.open_node(None, stat_machine=None)
