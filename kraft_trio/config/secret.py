"""Values of the configuration that nobody may read in a log, a trace or a `repr`."""

from __future__ import annotations

import attrs

HIDDEN = "[hidden]"


@attrs.frozen(repr=False)
class Secret:
    """A password or a private key; empty means none.  Its `repr` and its text say `[hidden]`."""

    value: str

    def __bool__(self) -> bool:
        return bool(self.value)

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN


@attrs.frozen
class SecretText:
    """The kind of such a value.  An error does not show it."""

    allowed: str

    def parse(self, text: str) -> Secret:
        return Secret(text)

    def take(self, value: object) -> Secret:
        if not isinstance(value, Secret):
            raise ValueError
        return value

    def format(self, value: Secret) -> str:
        return HIDDEN if value else ""


NO_SECRET = Secret("")
