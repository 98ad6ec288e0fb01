"""Makes the state machine that `kraft.state.machine` names."""

from __future__ import annotations

from typing import Final, cast

from kraft_trio.application.latest_by_key import LatestByKey
from kraft_trio.application.named_object import object_named, refusal
from kraft_trio.application.state_machine import BatchStateMachine, StateMachine, what_is_wrong_with
from kraft_trio.config import NodeConfig
from kraft_trio.config.values import LATEST_BY_KEY, NO_STATE_MACHINE

_SETTING: Final = "kraft.state.machine"
AnyStateMachine = StateMachine[bytes, object] | BatchStateMachine


def state_machine_of(config: NodeConfig) -> AnyStateMachine | None:
    """Make the configured state machine, or return None if none is configured.

    Raises ConfigError if the module cannot be imported, or its factory does not return a state machine.
    """
    name = config.state_machine
    if name == NO_STATE_MACHINE:
        return None
    if name == LATEST_BY_KEY:
        return LatestByKey()
    return _made_by(name)


def _made_by(name: str) -> AnyStateMachine:
    made = object_named(name, _SETTING, makes=True)
    wrong = what_is_wrong_with(made)
    if wrong is not None:
        raise refusal(_SETTING, name, f"made {type(made).__name__}, {wrong}")
    return cast(AnyStateMachine, made)
