"""Lines of a script.  A function declares a kind of line: its signature is the syntax, its docstring the manual.

The first parameter is what the line acts on.  Each other one is a value of the line, read and written by the part in
its annotation, and optional if it has a default.  A keyword-only parameter follows its own name:
`async def append(cluster: Cluster, value: Quoted, *, via: Node | None = None)` reads `append "a" via 1`.  Endings that
name a unit are left out, and a bool is the word alone.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, get_args, get_type_hints

import attrs

from kraft_trio.simulation.script.parts import Part
from kraft_trio.simulation.script.words import StepError, Words

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")

_UNIT: Final = re.compile(r"(_us|_ppm|_bytes|_)$")


@attrs.frozen
class Field:
    """One parameter of a kind of line."""

    name: str
    word: str | None
    """The word before the value."""
    part: Part[Any] | None
    """None: the word alone makes it true."""
    default: Any
    """`inspect.Parameter.empty` if the value must be given."""

    @property
    def is_optional(self) -> bool:
        return self.default is not inspect.Parameter.empty

    @property
    def shown(self) -> str:
        """The syntax in the documentation, such as `[via N]`."""
        text = " ".join(([self.word] if self.word else []) + ([self.part.name] if self.part else []))
        return f"[{text}]" if self.is_optional else text

    def read(self, words: Words) -> Any:
        """Read the value.  Raises StepError if the line lacks it and it is not optional."""
        if self.part is None:
            assert self.word is not None, "only a word can be a flag"
            return words.skip(self.word)
        if self.is_optional and not (self.part.begins(words) if self.word is None else words.peek() == self.word):
            return self.default
        if self.word is not None and not words.skip(self.word):
            raise StepError(f"{words.peek() or 'the line ends'!r}; expected {self.word!r} and {self.part.expected}")
        return self.part.read(words)

    def write(self, value: Any) -> list[str]:
        if self.is_optional and value == self.default:
            return []
        return ([self.word] if self.word else []) + (self.part.write(value) if self.part else [])

    def check(self, value: Any) -> None:
        """Raises ValueError if the value cannot be written."""
        if self.part is not None and not (self.is_optional and value == self.default) and not self.part.check(value):
            raise ValueError(f"{self.name}: {value!r}; expected {self.part.expected}")

    @classmethod
    def of(cls, parameter: inspect.Parameter, hint: Any) -> Field:
        word = None
        if parameter.kind is parameter.KEYWORD_ONLY:
            word = _UNIT.sub("", parameter.name).replace("_", "-")
        kinds = [hint, *get_args(hint)]  # the second one is in `Node | None`
        parts = (part for kind in kinds for part in getattr(kind, "__metadata__", ()) if isinstance(part, Part))
        return cls(parameter.name, word, next(parts, None), parameter.default)


@attrs.define(eq=False)
class Kind(Generic[S, P, R]):
    """A kind of line.  A call makes a line of it; `does` is the function that declares it."""

    verb: str
    does: Callable[Concatenate[S, P], R]
    fields: tuple[Field, ...] = attrs.field(init=False)
    _signature: inspect.Signature = attrs.field(init=False)
    _check: Callable[P, None] | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        _, *parameters = inspect.signature(self.does).parameters.values()
        hints = get_type_hints(self.does, include_extras=True)
        self.fields = tuple(Field.of(parameter, hints[parameter.name]) for parameter in parameters)
        self._signature = inspect.Signature(parameters)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Line[S, R]:
        """Make a line.  Raises ValueError if it could not be written."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for field in self.fields:
            field.check(bound.arguments[field.name])
        if self._check is not None:
            self._check(*args, **kwargs)
        return Line(self, tuple(bound.arguments.values()))

    def check(self, check: Callable[P, None]) -> Callable[P, None]:
        """Decorator: a function that raises ValueError if the values contradict each other."""
        self._check = check
        return check

    def read(self, words: Words) -> Line[S, R]:
        """Read the words after the verb.  Raises StepError."""
        make: Callable[..., Line[S, R]] = self
        try:
            values = {field.name: field.read(words) for field in self.fields}
            words.end()
            return make(**values)
        except (StepError, ValueError) as error:
            raise StepError(f"{error}: {self.syntax}") from None

    @property
    def syntax(self) -> str:
        """The syntax of its lines: `crash N... [all|some|reordered]`."""
        return " ".join([self.verb, *(field.shown for field in self.fields)])

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (self.does.__doc__ or "").strip().split("\n")[0]


@attrs.frozen
class Line(Generic[S, R]):
    """One line: a kind and its values.  `Kind.read` of its text makes an equal one."""

    kind: Kind[S, ..., R]
    _arguments: tuple[Any, ...]

    @property
    def verb(self) -> str:
        return self.kind.verb

    @property
    def values(self) -> Mapping[str, Any]:
        """The values by their parameters, in the order of the line."""
        return {field.name: value for field, value in zip(self.kind.fields, self._arguments, strict=True)}

    def with_value(self, name: str, value: Any) -> Line[S, R]:
        """This line with another value of one parameter.  Raises ValueError if it could not be written."""
        make: Callable[..., Line[S, R]] = self.kind
        return make(**{**self.values, name: value})

    @property
    def text(self) -> str:
        """The line as a script has it."""
        words = [word for f, value in zip(self.kind.fields, self._arguments, strict=True) for word in f.write(value)]
        return " ".join([self.verb, *words])

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The nodes that the line names, in its order."""
        given = [(field, self.values[field.name]) for field in self.kind.fields]
        named = [field.part.node_ids(value) for field, value in given if field.part and value != field.default]
        return tuple(dict.fromkeys(node for nodes in named for node in nodes))

    def take(self, subject: S) -> R:
        """Do what the line says."""
        does: Callable[..., R] = self.kind.does
        return does(subject, **self.values)
