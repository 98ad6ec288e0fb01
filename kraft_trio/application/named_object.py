"""Finds what a text names as `module:name`."""

from __future__ import annotations

import importlib

from kraft_trio.errors import ConfigError


def object_named(name: str, setting: str, *, makes: bool) -> object:
    """Import `module:name`, and if `makes` call it.  Raises ConfigError, which names the setting."""
    module_name, _, path = name.partition(":")
    try:
        found: object = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
        return found() if makes else found  # type: ignore[operator]
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise refusal(setting, name, f"{module_name} cannot be imported: {_described(error)}") from error
        reason = f"there is no module {error.name} where this Python looks for modules (see PYTHONPATH)"
        raise refusal(setting, name, reason) from error
    except Exception as error:
        raise refusal(setting, name, _described(error)) from error


def refusal(setting: str, name: str, reason: str) -> ConfigError:
    """The error for a setting that names an unusable object."""
    return ConfigError(f"{setting}={name}: {reason}")


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
