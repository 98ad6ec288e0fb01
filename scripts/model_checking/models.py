"""The models below spec/models, and the mutants of the specification that they must find."""

from __future__ import annotations

import re
import tomllib
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import attrs

SPEC: Final = Path(__file__).parents[2] / "spec"
MODELS: Final = SPEC / "models"
MUTANTS: Final = MODELS / "mutants.toml"
_RANDOM: Final = "\\* Random behaviours only."
_SECTIONS: Final = ("INVARIANT", "INVARIANTS", "PROPERTY", "PROPERTIES")


NO_MUTATION: Final = "none"


def rules() -> frozenset[str]:
    """The rules of the specification that can be switched off."""
    texts = [path.read_text(encoding="utf-8") for folder in (SPEC, MODELS) for path in folder.glob("*.tla")]
    return frozenset(rule for text in texts for rule in re.findall(r'Broken\("([^"]+)"\)', text))


@attrs.frozen
class Model:
    """A module with the sets and bounds of one model, and its configuration."""

    name: str

    @property
    def module(self) -> Path:
        return MODELS / f"{self.name}.tla"

    @property
    def configuration(self) -> str:
        return (MODELS / f"{self.name}.cfg").read_text(encoding="utf-8")

    @cached_property
    def purpose(self) -> str:
        """The first sentence of the module's comment."""
        text = self.module.read_text(encoding="utf-8")
        comment = " ".join(re.findall(r"\(\*(.*?)\*\)", text))
        return " ".join(comment.split()).partition(". ")[0].rstrip(".")

    @property
    def is_random(self) -> bool:
        """Whether it has too many states to be searched, so that only random behaviours are tried."""
        return self.configuration.startswith(_RANDOM)

    @property
    def properties(self) -> dict[str, str]:
        """The kind of each property that the model checks, by its name."""
        found: dict[str, str] = {}
        kind = ""
        for word in re.sub(r"\\\*.*", "", self.configuration).split():
            if word.isupper() and "_" not in word and len(word) > 3:
                kind = word
            elif kind in _SECTIONS:
                found[word] = "INVARIANT" if kind.startswith("INV") else "PROPERTY"
        return found

    def configured(self, mutation: str = "none", only: str | None = None) -> str:
        """The configuration with a rule switched off, perhaps with a single property.

        Raises ValueError if the model has no such property, or no mutation.
        """
        text, count = re.subn(r'(\bMutation = )"[^"]*"', rf'\1"{mutation}"', self.configuration)
        if mutation != "none" and count != 1:
            raise ValueError(f"model {self.name} has no constant Mutation")
        if only is None:
            return text
        if only not in self.properties:
            raise ValueError(f"model {self.name} has no property {only}: it has {', '.join(self.properties)}")
        sections = "|".join(_SECTIONS)
        without = re.sub(rf"^(?:{sections})\b.*\n(?:[ \t]+.*\n|\n)*", "", text, flags=re.MULTILINE)
        return f"{without}\n{self.properties[only]} {only}\n"


@attrs.frozen
class SpecifiedMutant:
    """A rule that the specification can switch off, and the property that TLC must find broken."""

    name: str
    model: str
    breaks: str
    simulate: bool = False
    """Whether random behaviours find it, because an exhaustive search takes too long."""
    depth: int = 100
    """The most steps of a random behaviour."""
    is_hazard: bool = False
    """Whether no rule is switched off: the protocol itself does not protect from what the model allows."""

    @property
    def mutation(self) -> str:
        return "none" if self.is_hazard else self.name


def models() -> dict[str, Model]:
    """All models by name."""
    return {path.stem: Model(path.stem) for path in sorted(MODELS.glob("*.cfg"))}


def mutants() -> list[SpecifiedMutant]:
    """All mutants, in the order of the table."""
    return [SpecifiedMutant(**row) for row in _table()["mutant"]]


def hazards() -> list[SpecifiedMutant]:
    """What the protocol does not protect from.  The model of each must break its property."""
    return [SpecifiedMutant(**row, is_hazard=True) for row in _table()["hazard"]]


def _table() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(MUTANTS.read_text(encoding="utf-8"))
