"""The public names with their signatures, one a line, for docs/reference/public-api.txt."""

from __future__ import annotations

import enum
import importlib
import inspect
from collections.abc import Collection, Iterator
from typing import Any, Final

MODULES: Final = (
    "kraft_trio",
    "kraft_trio.aio",
    "kraft_trio.kv",
    "kraft_trio.spark",
    "kraft_trio.spark.audit",
    "kraft_trio.sync",
    "kraft_trio.testing",
)


class _AsWritten:
    """Text that `inspect` shows without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def public_api() -> str:
    """Every Python name that docs/reference/versions.md calls stable.  Raises AttributeError for one that is absent."""
    named = {
        f"{module}.{name}": getattr(imported, name)
        for module in MODULES
        for imported in [importlib.import_module(module)]
        for name in sorted(imported.__all__)
    }
    public = {one for one in named.values() if inspect.isclass(one)}
    lines = [line for name, one in named.items() for line in _described(name, one, public - {one})]
    return "".join(f"{line}\n" for line in lines)


def _described(name: str, named: Any, elsewhere: Collection[type]) -> Iterator[str]:
    """`elsewhere` are classes whose members are not repeated in those that inherit them."""
    if not inspect.isclass(named):
        yield _signature(name, named) if callable(named) else f"{name}: {type(named).__name__}"
        return
    bases = ", ".join(base.__name__ for base in named.__bases__ if base is not object)
    yield f"class {name}({bases})"
    if issubclass(named, enum.Enum):
        yield from (f"    {member.name} = {member.value!r}" for member in named)
        return
    owners = [
        one for one in reversed(named.__mro__) if one.__module__.startswith("kraft_trio") and one not in elsewhere
    ]
    if any("__init__" in vars(owner) for owner in owners) and not getattr(named, "_is_protocol", False):
        yield f"    {_signature('__init__', named)}"
    fields = {field: kind for owner in owners for field, kind in inspect.get_annotations(owner).items()}
    members = {**fields, **{member: value for owner in owners for member, value in vars(owner).items()}}
    for member in sorted(member for member in members if not member.startswith("_")):
        value = getattr(members[member], "__func__", members[member])
        if isinstance(value, property):
            yield f"    {member}{_signature('', value.fget).partition(')')[2].replace(' ->', ':')}"
        elif inspect.isfunction(value):
            yield f"    {_signature(member, value)}"
        else:
            yield f"    {member}" + (f": {fields[member]}" if member in fields else "")


def _signature(name: str, of: Any) -> str:
    """Annotations are as in the code.  A default without a value that one could write is `...`."""
    signature = inspect.signature(of)

    def written(annotation: Any) -> Any:
        return _AsWritten(annotation) if isinstance(annotation, str) else annotation

    parameters = [
        one.replace(
            annotation=written(one.annotation),
            default=_AsWritten("...") if "<" in repr(one.default) and one.default is not one.empty else one.default,
        )
        for one in signature.parameters.values()
    ]
    shown = signature.replace(parameters=parameters, return_annotation=written(signature.return_annotation))
    return f"{'async ' if inspect.iscoroutinefunction(of) else ''}{name}{shown}"
