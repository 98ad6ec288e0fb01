"""`sasl.jaas.config`: one login module of Java's JAAS with its options, as Kafka's files have it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.config.secret import NO_SECRET, Secret, SecretText

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_USER: Final = "user_"

_START: Final = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)(?=[\s;])", re.IGNORECASE
)
_OPTION: Final = re.compile(r'\s+(?P<name>[^\s="\';]+)\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"\';]+))')
_END: Final = re.compile(r"\s*;\s*")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


@attrs.frozen
class JaasLogin:
    """The options of one login module."""

    module: str
    options: Mapping[str, Secret]

    @property
    def username(self) -> str:
        """The user that a client logs in as; empty if there is none."""
        return self.options.get("username", NO_SECRET).value

    @property
    def password(self) -> Secret:
        """The client's password."""
        return self.options.get("password", NO_SECRET)

    @property
    def users(self) -> Mapping[str, Secret]:
        """The passwords that a server of PLAIN accepts, by user."""
        return {name.removeprefix(_USER): value for name, value in self.options.items() if name.startswith(_USER)}


def parse_jaas(text: str) -> JaasLogin:
    """Read `MODULE required NAME="VALUE" …;`.  Raises ValueError, which names no value."""
    start = _START.match(text)
    if start is None:
        raise ValueError("it does not begin with a login module and `required`")
    module = start["module"]
    if module not in (PLAIN_MODULE, SCRAM_MODULE):
        raise ValueError(f"the login module {module} is not served")
    options: dict[str, Secret] = {}
    at = start.end()
    while (option := _OPTION.match(text, at)) is not None:
        name, at = option["name"], option.end()
        if name in options:
            raise ValueError(f"the option {name} is given twice")
        quoted = option["quoted"]
        options[name] = Secret(option["bare"] if quoted is None else _ESCAPED.sub(r"\1", quoted))
    if _END.fullmatch(text, at) is None:
        after = f"the option {list(options)[-1]}" if options else "the login module"
        raise ValueError(f'after {after} comes neither NAME="VALUE" nor the semicolon at the end')
    return JaasLogin(module, options)


class JaasText(SecretText):
    """The kind of such a value.  An error does not show it."""

    def parse(self, text: str) -> JaasLogin | None:  # type: ignore[override]
        return parse_jaas(text) if text else None

    def take(self, value: object) -> JaasLogin | None:  # type: ignore[override]
        if value is not None and not isinstance(value, JaasLogin):
            raise ValueError
        return value

    def format(self, value: object) -> str:
        return super().format(Secret("" if value is None else "set"))
