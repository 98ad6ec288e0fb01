"""What became of a command, in memory and encoded for the table of requests."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import attrs
import msgpack

from kraft_trio.errors import CommandFailed, ResultLostError

if TYPE_CHECKING:
    import cattrs

R = TypeVar("R")

_RESULT: Final = 0
_FAILED: Final = 1
_LOST: Final = 2

MAX_OUTCOME_BYTES: Final = 1024 * 1024
"""A larger outcome is not kept, because one alone could make the table forget all others."""


@attrs.frozen
class Outcome(Generic[R]):
    """The result of a command, or the error that its caller gets."""

    result: R | None = None
    error: Exception | None = None

    def get(self) -> R:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return cast(R, self.result)


class OutcomeSerde(Generic[R]):
    """Encodes outcomes as msgpack.  Results have the type that the state machine's `apply` is annotated with."""

    def __init__(self, machine: object) -> None:
        self._type = _result_type(machine)

    @cached_property
    def _converter(self) -> cattrs.Converter:
        from cattrs.preconf.msgpack import make_converter

        return make_converter()

    def encode(self, outcome: Outcome[R]) -> bytes:
        """Encode an outcome.  One that is too large or could not be decoded again is left out.

        A retry then gets ResultLostError.
        """
        data = self._encoded(outcome)
        if len(data) > MAX_OUTCOME_BYTES:
            return _pack(_LOST, f"it has {len(data)} bytes, and at most {MAX_OUTCOME_BYTES} are kept")
        return data

    def _encoded(self, outcome: Outcome[R]) -> bytes:
        if outcome.error is not None:
            return _pack(_FAILED, _name_of(type(outcome.error)), *_failure_arguments(outcome.error))
        try:
            data = _pack(_RESULT, self._converter.unstructure(outcome.result, self._type))
            if self._result_in(data) == outcome.result:
                return data
        except Exception as error:
            return _pack(_LOST, f"{type(outcome.result).__name__} cannot be encoded: {type(error).__name__}")
        return _pack(_LOST, f"{type(outcome.result).__name__} is not what `apply` is annotated to return")

    def decode(self, data: bytes) -> Outcome[R]:
        kind, *content = msgpack.unpackb(data, raw=False, strict_map_key=False)
        if kind == _RESULT:
            return Outcome(self._result_in(data))
        if kind == _FAILED:
            name, *arguments = content
            return Outcome(error=_failure(name, arguments))
        return Outcome(error=ResultLostError(f"the request was applied, and its result is lost: {content[0]}"))

    def _result_in(self, data: bytes) -> R:
        _, content = msgpack.unpackb(data, raw=False, strict_map_key=False)
        return cast(R, content if self._type is None else self._converter.structure(content, self._type))


def _pack(*parts: object) -> bytes:
    return cast(bytes, msgpack.packb(parts, use_bin_type=True))


def _result_type(machine: object) -> Any:
    """The annotated type of results; None if it is not known or any."""
    try:
        found = typing.get_type_hints(type(machine).apply).get("return")  # type: ignore[attr-defined]
    except Exception:
        return None
    return None if found in (Any, object, type(None)) or isinstance(found, TypeVar) else found


def _name_of(cls: type[Exception]) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _failure_arguments(error: Exception) -> tuple[object, ...]:
    try:
        _pack(*error.args)
    except Exception:
        return (str(error),)
    return error.args


def _failure(name: str, arguments: list[object]) -> Exception:
    """The error of that class, or a CommandFailed with its text if there is no such class here."""
    for cls in _descendants(CommandFailed):
        if _name_of(cls) == name:
            try:
                return cls(*arguments)
            except Exception:
                break
    return CommandFailed(*arguments)


def _descendants(cls: type[CommandFailed]) -> Iterator[type[CommandFailed]]:
    yield cls
    for child in cls.__subclasses__():
        yield from _descendants(child)
