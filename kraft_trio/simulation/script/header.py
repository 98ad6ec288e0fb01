"""The header of a scenario script: the cluster, described before the first step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

import attrs

from kraft_trio.config import parse_config
from kraft_trio.errors import ConfigError
from kraft_trio.simulation.script.parts import NODES, NUMBER, WordPart, choice
from kraft_trio.simulation.script.steps import Line, part, read_fields
from kraft_trio.simulation.script.words import StepError, Words
from kraft_trio.simulation.setup import OWN_KEYS

NAME_IN_MODULE: Final = r"[\w.]+:[\w.]+"


class HeaderItem(Line):
    """One line of the header."""


@attrs.frozen
class SeedItem(HeaderItem):
    """The seed for everything the script leaves open.  Default: 0."""

    verb: ClassVar[str] = "seed"
    seed: int = part(NUMBER)


@attrs.frozen
class VotersItem(HeaderItem):
    """The initial voters.  Default: 1 2 3."""

    verb: ClassVar[str] = "voters"
    nodes: tuple[int, ...] = part(NODES)


@attrs.frozen
class ObserversItem(HeaderItem):
    """The observers.  Default: none."""

    verb: ClassVar[str] = "observers"
    nodes: tuple[int, ...] = part(NODES)


@attrs.frozen
class WitnessesItem(HeaderItem):
    """The nodes with kraft.witness.  Default: none."""

    verb: ClassVar[str] = "witnesses"
    nodes: tuple[int, ...] = part(NODES)


@attrs.frozen
class WaitingItem(HeaderItem):
    """The nodes that do not run before a step starts them.  Default: none."""

    verb: ClassVar[str] = "waiting"
    nodes: tuple[int, ...] = part(NODES)


@attrs.frozen
class KRaftVersionItem(HeaderItem):
    """0: controller.quorum.voters names the voters; 1 (the default): the log does."""

    verb: ClassVar[str] = "kraft-version"
    version: str = part(choice("0", "1"))


@attrs.frozen
class SetItem(HeaderItem):
    """A configuration key for every node."""

    verb: ClassVar[str] = "set"
    key: str = part(WordPart("KEY", "a configuration key", r"[a-z][a-z0-9.]*"))
    value: str = part(WordPart("VALUE", "a value without spaces", r'[^\s"#]+'))


@attrs.frozen
class StateMachineItem(HeaderItem):
    """An application's state machine, as `kraft simulate --state-machine` runs it.  Clients execute its commands."""

    verb: ClassVar[str] = "state-machine"
    name: str = part(WordPart("MODULE:FACTORY", "a module and a name in it", NAME_IN_MODULE))
    serde: str | None = part(
        WordPart("MODULE:NAME", "a module and a name in it", NAME_IN_MODULE), after="serde", default=None
    )


HEADER_ITEMS: Final[Mapping[str, type[HeaderItem]]] = {
    item.verb: item
    for item in (
        SeedItem,
        VotersItem,
        ObserversItem,
        WitnessesItem,
        WaitingItem,
        KRaftVersionItem,
        SetItem,
        StateMachineItem,
    )
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
        yield SeedItem(self.seed)
        yield VotersItem(self.voters)
        if self.observers:
            yield ObserversItem(self.observers)
        if self.witnesses:
            yield WitnessesItem(self.witnesses)
        if self.waiting:
            yield WaitingItem(self.waiting)
        if self.kraft_version != 1:
            yield KRaftVersionItem(str(self.kraft_version))
        for key, value in self.settings:
            yield SetItem(key, value)
        if self.state_machine is not None:
            yield StateMachineItem(self.state_machine, self.serde)

    def with_item(self, item: HeaderItem) -> Header:
        """This header with one more line.  Raises StepError if the two contradict each other or the setting is
        refused."""
        match item:
            case SeedItem(seed):
                return attrs.evolve(self, seed=seed)
            case VotersItem(nodes):
                return attrs.evolve(self, voters=nodes)._checked()
            case ObserversItem(nodes):
                return attrs.evolve(self, observers=nodes)._checked()
            case WitnessesItem(nodes):
                return attrs.evolve(self, witnesses=nodes)._checked()
            case WaitingItem(nodes):
                return attrs.evolve(self, waiting=nodes)._checked()
            case KRaftVersionItem(version):
                return attrs.evolve(self, kraft_version=int(version))
            case SetItem(key, value):
                return self._with_setting(key, value)
            case StateMachineItem(name, serde):
                return attrs.evolve(self, state_machine=name, serde=serde)
        raise AssertionError(f"not a header item: {item}")

    def _checked(self) -> Header:
        both = sorted(set(self.voters) & set(self.observers))
        if both:
            voters = " ".join(map(str, self.voters))
            raise StepError(f"node {both[0]} is a voter and an observer; expected other observers than voters {voters}")
        for name, ids in (("witness", self.witnesses), ("waiting", self.waiting)):
            unknown = sorted(set(ids) - set(self.nodes))
            if unknown:
                nodes = " ".join(map(str, self.nodes))
                raise StepError(f"{name} {unknown[0]} is no node; expected some of {nodes}, which come first")
        return self

    def _with_setting(self, key: str, value: str) -> Header:
        if key in dict(self.settings):
            raise StepError(f"{key} is set twice; expected each key once")
        if key in OWN_KEYS:
            raise StepError(f"{key} is what the simulator gives each node; expected another key")
        try:
            warnings = parse_config({**ANY_NODE, key: value}).warnings
        except ConfigError as error:
            raise StepError(str(error)) from None
        if warnings:
            raise StepError(warnings[0])
        return attrs.evolve(self, settings=(*self.settings, (key, value)))


ANY_NODE: Final = {
    "node.id": "1",
    "process.roles": "controller",
    "listeners": "CONTROLLER://node-1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "node-1:9093",
    "metadata.log.dir": "/data",
}


def header_item_from_words(words: Sequence[str]) -> HeaderItem | None:
    """Read the words of one line; None if it is no line of a header.  Raises StepError."""
    item = HEADER_ITEMS.get(words[0])
    if item is None:
        return None
    try:
        return item(**read_fields(item, Words(words, 1)))
    except (StepError, ValueError) as error:
        raise StepError(f"{error}: {item.syntax()}") from None
