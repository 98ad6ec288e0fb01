"""`--initial-controllers`: what is read, and what is refused, entry by entry."""

from __future__ import annotations

import pytest

from kraft_trio.cli.directory.format_plan import InitialController, parse_initial_controllers
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.types import Endpoint, ReplicaKey, directory_id_from_text

D1, D2, D3 = "3Db5QLSqSZieL3rJBUUegA", "L3rJBUUegA3Db5QLSqSZig", "UegA3Db5QLSqSZieL3rJBQ"


def controller(id: int, host: str, port: int, directory_id: str) -> InitialController:
    return InitialController(ReplicaKey(id, directory_id_from_text(directory_id)), Endpoint(host, port))


@pytest.mark.parametrize(
    ("text", "controllers"),
    [
        (f"0@controller-0:1234:{D1}", [controller(0, "controller-0", 1234, D1)]),
        (f"5@[2001:4860:4860::8844]:8020:{D2}", [controller(5, "2001:4860:4860::8844", 8020, D2)]),
        (
            f"0@controller-0:1234:{D1}, 1@[::1]:1235:{D2},2@controller-2:1236:{D3}",
            [
                controller(0, "controller-0", 1234, D1),
                controller(1, "::1", 1235, D2),
                controller(2, "controller-2", 1236, D3),
            ],
        ),
    ],
    ids=["one", "IPv6", "three"],
)
def test_what_is_read(text: str, controllers: list[InitialController]) -> None:
    assert list(parse_initial_controllers(text)) == controllers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        f"localhost:8020:{D1}",
        f"@localhost:8020:{D1}",
        f"-5@localhost:8020:{D1}",
        f"x@localhost:8020:{D1}",
        f"5@:8020:{D1}",
        f"5@localhost:{D1}",
        f"5@localhost8020:{D1}",
        f"5@localhost:x:{D1}",
        f"5@localhost:-1:{D1}",
        f"5@localhost:0:{D1}",
        f"5@localhost:65536:{D1}",
        f"5@[2001:4860:8020:{D1}",
        f"5@[2001:4860::8844]8020:{D1}",
        "5@localhost:8020",
        f"5@localhost:8020{D1}",
        "5@localhost:8020:",
        f"5@localhost:8020:{D1[:-2]}",
        f"5@localhost:8020:{D1},5@localhost:8021:{D2}",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--initial-controllers: "):
        parse_initial_controllers(text)
