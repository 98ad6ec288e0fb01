"""Makes the state machine that `kraft.state.machine` names."""

from __future__ import annotations

import importlib

from kraft_trio.application.latest_by_key import LatestByKey
from kraft_trio.application.state_machine import BatchStateMachine, StateMachine, what_is_wrong_with
from kraft_trio.config import NodeConfig
from kraft_trio.config.values import LATEST_BY_KEY, NO_STATE_MACHINE
from kraft_trio.errors import ConfigError

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
    module_name, _, factory_name = name.partition(":")
    try:
        made = importlib.import_module(module_name)
        for part in factory_name.split("."):
            made = getattr(made, part)
        made = made()  # type: ignore[operator]
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise _refusal(name, f"{module_name} cannot be imported: {_described(error)}") from error
        raise _refusal(
            name, f"there is no module {error.name} where this node's Python looks for modules (see PYTHONPATH)"
        ) from error
    except Exception as error:
        raise _refusal(name, _described(error)) from error
    wrong = what_is_wrong_with(made)
    if wrong is not None:
        raise _refusal(name, f"made {type(made).__name__}, {wrong}")
    machine: AnyStateMachine = made
    return machine


def _refusal(name: str, reason: str) -> ConfigError:
    return ConfigError(f"kraft.state.machine={name}: {reason}")


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
