"""The protocol of a state machine that `kraft simulate --state-machine` tests, and how it is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from typing_extensions import TypeVar

from kraft_trio.application.named_object import object_named, refusal
from kraft_trio.application.serde import RawSerde, Serde
from kraft_trio.application.state_machine import StateMachine, what_is_wrong_with
from kraft_trio.errors import SerdeError

T = TypeVar("T", default=Any)
R_co = TypeVar("R_co", covariant=True, default=Any)

MACHINE_OPTION: Final = "--state-machine"
SERDE_OPTION: Final = "--serde"


class SimulatedMachine(StateMachine[T, R_co], Protocol[T, R_co]):
    """A state machine that says which commands its clients execute.

    It may also have

    - `random_query(source: random.Random) -> Q` and `answer(query: Q) -> A`: a read of the state, for clients that read
      behind a read barrier;
    - `model() -> StateMachine[T, R]`: a second, simpler state machine.  Each result must be equal to the model's, and
      each answer too if the model has `answer`.  By default, another instance from the same factory is the model, which
      cannot show a command that is always applied wrongly.
    """

    def random_command(self, source: random.Random, /) -> T:
        """Return the next command of a client, with random numbers from `source` alone.

        Called on an instance of its own, which applies nothing.
        """
        ...


def machine_named(name: str) -> Callable[[], SimulatedMachine]:
    """The factory that `module:factory` names, after it has made one state machine.  Raises ConfigError."""
    factory = object_named(name, MACHINE_OPTION, makes=False)
    if not callable(factory):
        raise refusal(MACHINE_OPTION, name, f"{type(factory).__name__}, expected a class or another factory")
    made = object_named(name, MACHINE_OPTION, makes=True)
    wrong = what_is_wrong_with(made)
    if wrong is None and not hasattr(made, "apply"):
        wrong = "which has no method apply"
    if wrong is None and not callable(getattr(made, "random_command", None)):
        wrong = "which has no method random_command"
    if wrong is None and hasattr(made, "random_query") != hasattr(made, "answer"):
        wrong = "which has only one of random_query and answer"
    if wrong is not None:
        raise refusal(MACHINE_OPTION, name, f"made {type(made).__name__}, {wrong}")
    return cast("Callable[[], SimulatedMachine]", factory)


def serde_named(name: str | None, machine: SimulatedMachine) -> Serde:
    """The serde that `module:name` names, bytes without a name.  Raises ConfigError if it cannot encode a command."""
    serde = object_named(name, SERDE_OPTION, makes=False) if name else RawSerde()
    if not (callable(getattr(serde, "encode", None)) and callable(getattr(serde, "decode", None))):
        raise refusal(SERDE_OPTION, name or "", f"{type(serde).__name__}, expected an object with encode and decode")
    checked = cast(Serde, serde)
    try:
        checked.encode(machine.random_command(random.Random(0)))
    except (SerdeError, ValueError, TypeError) as error:
        raise refusal(SERDE_OPTION, name or "bytes", f"cannot encode a command: {error}") from error
    return checked
