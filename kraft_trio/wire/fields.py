"""The words in which the class of a message says how it lies on the wire.

A message is an attrs class.  The annotations of its attributes are Python's types together with those of Kafka's
protocol, in the order of the wire:

    @attrs.frozen
    class Topic:
        throttle_ms: ClassVar[Annotated[Int32, Place(since=1)]] = 0
        name: String | None
        topic_id: Annotated[Uuid, Place(since=10)] = NO_TOPIC_ID
        partitions: tuple[Partition, ...] = ()
        leader_id: Annotated[Int32, Place(since=12, tag=0)] = -1

`tuple[X, ...]` is an array, another attrs class or a `tuple[X, Y]` a structure, and `| None` allows null.  `Place` says
which versions have the field, and where.  A `ClassVar` is a field without an attribute: what is read there is dropped,
and its value is written.  A text in `Annotated` is Kafka's name of the field; refusals use it.

An attribute that a version does not have is read as its default, or without one as -1, "", a zero UUID or ().  Tagged
fields (KIP-482) are sent unless they have their default; tags from 10000 on are our own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias, get_args
from uuid import UUID

import attrs

from kraft_trio.wire.error_codes import ErrorCode


@attrs.frozen
class Kind:
    """A type of single values in Kafka's protocol; `format` is the one of `struct` if they have a fixed size."""

    name: str
    format: str
    zero: Any
    unknown: Any
    """The value of a field that a version does not have."""


def _number(name: str, format: str) -> Kind:
    return Kind(name, format, 0, -1)


Bool: TypeAlias = Annotated[bool, Kind("bool", "?", False, False)]
Int8: TypeAlias = Annotated[int, _number("int8", "b")]
Int16: TypeAlias = Annotated[int, _number("int16", "h")]
Int32: TypeAlias = Annotated[int, _number("int32", "i")]
Int64: TypeAlias = Annotated[int, _number("int64", "q")]
Uint16: TypeAlias = Annotated[int, _number("uint16", "H")]
Float64: TypeAlias = Annotated[float, Kind("float64", "d", 0.0, 0.0)]
Error: TypeAlias = Annotated[ErrorCode, Kind("error_code", "h", ErrorCode.none, ErrorCode.none)]
"""An int16.  Codes that we do not know are read as UNKNOWN_SERVER_ERROR."""
Uuid: TypeAlias = Annotated[UUID, Kind("uuid", "16s", UUID(int=0), UUID(int=0))]
String: TypeAlias = Annotated[str, Kind("string", "", "", "")]
Bytes: TypeAlias = Annotated[bytes, Kind("bytes", "", b"", b"")]
Records: TypeAlias = Annotated[bytes, Kind("records", "", b"", b"")]

FORMATS: Final[Mapping[str, str]] = {
    kind.name: kind.format for _, kind in map(get_args, (Bool, Int8, Int16, Int32, Int64, Uint16, Float64, Error, Uuid))
}
"""The `struct` format of each type that has a fixed size."""


@attrs.frozen(kw_only=True)
class Place:
    """Which versions have the field, first and last inclusive, and where."""

    since: int = 0
    until: int | None = None
    tag: int | None = None
    after: str | None = None
    """The field before it on the wire, if that is not the one declared before it."""
    of: str | None = None
    """The attribute that a ClassVar has another place for, as in other versions.  The first place is read."""
    absent: Any = ...
    """What the attribute is read as where it is not sent, if that is not its default."""
    needs: str | None = None
    """Why a version without the field cannot say more than the default; `{version}` is the version."""

    def includes(self, version: int) -> bool:
        return self.since <= version and (self.until is None or version <= self.until)


class Shared:
    """Marks what `ByTopic` writes once for neighbours."""


class Varying:
    """Marks what differs from message to message while the rest of most messages is the same (`frame_templates`)."""


class Inline:
    """Marks an object whose fields lie among those around it, without a structure of their own."""


SHARED: Final = Shared()
INLINE: Final = Inline()
VARIES: Final = Varying()


@attrs.frozen
class ByTopic:
    """Neighbours with equal SHARED attributes are listed together: on the wire an array `name` of such lists."""

    name: str
    members: str = "partitions"
    """The name of the lists."""


class Parts:
    """The fields of a class that does not declare them itself, such as one of `protocol/`, in the order of the wire.

    A name that the class does not have is a field without an attribute; null or zero is written.  Where the class is
    optional, None has the values `none` on the wire, by default -1 in each field.
    """

    def __init__(self, none: tuple[Any, ...] | None = None, **hints: Any) -> None:
        self.none = none
        self.hints = hints


@attrs.frozen(eq=False)
class Nest:
    """A structure of the wire whose fields are attributes of the object around it.

    With `is_array`, it is an array that has exactly one such structure.  If `unless`, an attribute with an error code,
    is set, then the array is empty.  Any other number is refused, or without `unless` read as defaults.
    """

    name: str
    place: Place = Place()
    inside: Nest | None = None
    is_array: bool = False
    unless: str | None = None


@attrs.frozen(eq=False)
class Via:
    """The attribute holds a converted value; the one on the wire has type `wire`.

    `read` makes the attribute's value, and `write` the wire's; both are functions, or expressions with {} for the
    value.  They also get the attributes that `beside` names.
    """

    wire: Any
    read: Callable[..., Any] | str | None = None
    write: Callable[..., Any] | str | None = None
    beside: tuple[str, ...] = ()
