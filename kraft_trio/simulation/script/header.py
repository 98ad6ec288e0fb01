"""The header of a scenario script: the cluster, described before the first step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Concatenate, Final, ParamSpec, TypeAlias

import attrs

from kraft_trio.config import parse_config
from kraft_trio.errors import ConfigError
from kraft_trio.simulation.script.line import Kind, Line
from kraft_trio.simulation.script.parts import Nodes, Number, choice, word
from kraft_trio.simulation.script.words import StepError, Words
from kraft_trio.simulation.setup import OWN_KEYS

P = ParamSpec("P")

ANY_NODE: Final = {
    "node.id": "1",
    "process.roles": "controller",
    "listeners": "CONTROLLER://node-1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "node-1:9093",
    "metadata.log.dir": "/data",
}


@attrs.frozen(kw_only=True)
class Header:
    """The cluster of a script."""

    seed: int = 0
    voters: tuple[int, ...] = (1, 2, 3)
    observers: tuple[int, ...] = ()
    witnesses: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    kraft_version: int = 1
    settings: tuple[tuple[str, str], ...] = ()
    """Keys and values, in the order of the script."""
    state_machine: str | None = None
    """`module:factory` of an application's state machine."""
    serde: str | None = None
    """`module:name` of the serde of its commands."""

    @property
    def nodes(self) -> tuple[int, ...]:
        return (*self.voters, *self.observers)

    def items(self) -> Iterator[HeaderItem]:
        """The header as lines."""
        yield _seed(self.seed)
        yield _voters(self.voters)
        for kind, nodes in ((_observers, self.observers), (_witnesses, self.witnesses), (_waiting, self.waiting)):
            if nodes:
                yield kind(nodes)
        if self.kraft_version != 1:
            yield _kraft_version(str(self.kraft_version))
        for key, value in self.settings:
            yield _set(key, value)
        if self.state_machine is not None:
            yield _state_machine(self.state_machine, serde=self.serde)

    def checked(self) -> Header:
        """This header.  Raises StepError if its nodes contradict each other."""
        both = sorted(set(self.voters) & set(self.observers))
        if both:
            voters = " ".join(map(str, self.voters))
            raise StepError(f"node {both[0]} is a voter and an observer; expected other observers than voters {voters}")
        for name, ids in (("witness", self.witnesses), ("waiting", self.waiting)):
            unknown = sorted(set(ids) - set(self.nodes))
            if unknown:
                known = " ".join(map(str, self.nodes))
                raise StepError(f"{name} {unknown[0]} is no node; expected some of {known}, which come first")
        return self


HeaderItem: TypeAlias = Line[Header, Header]
"""One line of the header.  `take` gives the header with that line, and raises StepError if the two contradict each
other or the setting is refused."""

_kinds: dict[str, Kind[Header, ..., Header]] = {}
HEADER_ITEMS: Final[Mapping[str, Kind[Header, ..., Header]]] = MappingProxyType(_kinds)


def _item(does: Callable[Concatenate[Header, P], Header]) -> Kind[Header, P, Header]:
    verb = does.__name__.removeprefix("_").replace("_", "-")
    _kinds[verb] = kind = Kind(verb, does)
    return kind


@_item
def _seed(header: Header, seed: Number) -> Header:
    """The seed for everything the script leaves open.  Default: 0."""
    return attrs.evolve(header, seed=seed)


@_item
def _voters(header: Header, nodes: Nodes) -> Header:
    """The initial voters.  Default: 1 2 3."""
    return attrs.evolve(header, voters=nodes).checked()


@_item
def _observers(header: Header, nodes: Nodes) -> Header:
    """The observers.  Default: none."""
    return attrs.evolve(header, observers=nodes).checked()


@_item
def _witnesses(header: Header, nodes: Nodes) -> Header:
    """The nodes with kraft.witness.  Default: none."""
    return attrs.evolve(header, witnesses=nodes).checked()


@_item
def _waiting(header: Header, nodes: Nodes) -> Header:
    """The nodes that do not run before a step starts them.  Default: none."""
    return attrs.evolve(header, waiting=nodes).checked()


@_item
def _kraft_version(header: Header, version: Annotated[str, choice("0", "1")]) -> Header:
    """0: controller.quorum.voters names the voters; 1 (the default): the log does."""
    return attrs.evolve(header, kraft_version=int(version))


@_item
def _set(
    header: Header,
    key: Annotated[str, word("KEY", "a configuration key", r"[a-z][a-z0-9.]*")],
    value: Annotated[str, word("VALUE", "a value without spaces", r'[^\s"#]+')],
) -> Header:
    """A configuration key for every node."""
    if key in dict(header.settings):
        raise StepError(f"{key} is set twice; expected each key once")
    if key in OWN_KEYS:
        raise StepError(f"{key} is what the simulator gives each node; expected another key")
    try:
        warnings = parse_config({**ANY_NODE, key: value}).warnings
    except ConfigError as error:
        raise StepError(str(error)) from None
    if warnings:
        raise StepError(warnings[0])
    return attrs.evolve(header, settings=(*header.settings, (key, value)))


_NAME_IN_MODULE: Final = ("a module and a name in it", r"[\w.]+:[\w.]+")


@_item
def _state_machine(
    header: Header,
    name: Annotated[str, word("MODULE:FACTORY", *_NAME_IN_MODULE)],
    *,
    serde: Annotated[str, word("MODULE:NAME", *_NAME_IN_MODULE)] | None = None,
) -> Header:
    """An application's state machine, as `kraft simulate --state-machine` runs it.  Clients execute its commands."""
    return attrs.evolve(header, state_machine=name, serde=serde)


def header_item_from_words(words: Sequence[str]) -> HeaderItem | None:
    """Read the words of one line; None if it is no line of a header.  Raises StepError."""
    kind = HEADER_ITEMS.get(words[0])
    return None if kind is None else kind.read(Words(words, 1))
