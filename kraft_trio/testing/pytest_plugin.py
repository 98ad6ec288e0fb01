"""A pytest plugin with the fixture `kraft_cluster`.  In `conftest.py`:

pytest_plugins = ["kraft_trio.testing.pytest_plugin"]
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest

FIXTURE: Final = "kraft_cluster"

_MARKER: Final = (
    "kraft_cluster(make, serde=..., voters=3, observers=0, settings={}, seeds=1): "
    "what the fixture kraft_cluster opens, as in kraft_trio.testing.open_cluster, once for each seed from 0 on"
)


@attrs.frozen
class _Planned:
    """The cluster that one test opens, once it runs in virtual time."""

    seed: int
    arguments: tuple[Any, ...]
    options: dict[str, Any]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if FIXTURE not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker(FIXTURE)
    if marker is None:
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: needs the marker pytest.mark.{FIXTURE}(make, ...)")
    if not inspect.iscoroutinefunction(metafunc.function):
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: must be async to use {FIXTURE}")
    options = dict(marker.kwargs)
    planned = [_Planned(seed, marker.args, options) for seed in range(options.pop("seeds", 1))]
    metafunc.parametrize(FIXTURE, planned, ids=[f"seed {one.seed}" for one in planned], indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    # The test becomes a plain function, so that no other plugin runs it in real time.
    if isinstance(item, pytest.Function) and FIXTURE in item.fixturenames and inspect.iscoroutinefunction(item.obj):
        item.obj = _in_virtual_time(item.obj)


@pytest.fixture
def kraft_cluster(request: pytest.FixtureRequest) -> Any:
    """The VirtualCluster that the marker `kraft_cluster` describes."""
    return request.param


def _in_virtual_time(test: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(test)
    def run_test(**arguments: Any) -> None:
        from kraft_trio.testing import open_cluster, run

        planned: _Planned = arguments[FIXTURE]

        async def main() -> None:
            async with open_cluster(*planned.arguments, **planned.options) as cluster:
                await test(**{**arguments, FIXTURE: cluster})

        run(main, seed=planned.seed)

    return run_test
