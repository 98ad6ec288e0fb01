"""What became of a command, in memory and encoded for the table of requests."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from itertools import chain, islice
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
MAX_OUTCOME_ITEMS: Final = 32 * 1024
"""Objects, fields and elements of a result that is kept.  To encode one and to check it takes a microsecond or more."""


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
        if not _has_few_items(outcome.result):
            return _pack(_LOST, f"it has over {MAX_OUTCOME_ITEMS} parts, and no more are kept")
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
            try:
                return Outcome(self._result_in(data))
            except Exception as error:
                # It was kept by a version of the application with other types.
                content = [f"it is not what `apply` is annotated to return: {type(error).__name__}"]
        if kind == _FAILED:
            name, *arguments = content
            return Outcome(error=_failure(name, arguments))
        return Outcome(error=ResultLostError(f"the request was applied, and its result is lost: {content[0]}"))

    def _result_in(self, data: bytes) -> R:
        _, content = msgpack.unpackb(data, raw=False, strict_map_key=False)
        return cast(R, content if self._type is None else self._converter.structure(content, self._type))


def _has_few_items(result: object) -> bool:
    """Whether a result has at most MAX_OUTCOME_ITEMS.  Stops at the first one that is too many."""
    left, unseen = MAX_OUTCOME_ITEMS - 1, [result]
    while unseen and left >= 0:
        one = unseen.pop()
        if isinstance(one, list | tuple | set | frozenset):
            inner: Iterable[object] = one
        elif isinstance(one, Mapping):
            inner = chain(one.keys(), one.values())
        else:
            inner = [getattr(one, name, None) for name in _field_names(cast(Any, type(one)))]
        before = len(unseen)
        unseen += islice(inner, left + 1)
        left -= len(unseen) - before
    return left >= 0


@cache
def _field_names(cls: Any) -> tuple[str, ...]:
    """The fields of a class of attrs or dataclasses; of any other, none."""
    if attrs.has(cls):
        return tuple(field.name for field in attrs.fields(cls))
    return tuple(field.name for field in dataclasses.fields(cls)) if dataclasses.is_dataclass(cls) else ()


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
        msgpack.unpackb(_pack(*error.args), raw=False, strict_map_key=False)
    except Exception:
        # msgpack takes UTF-8 alone.
        return (_text_of(error).encode("utf-8", "backslashreplace").decode(),)
    return error.args


def _text_of(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return type(error).__name__


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
