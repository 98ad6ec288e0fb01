"""The configuration keys of SASL, with Kafka's names.  Each may also be set for one listener."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from kraft_trio.config.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasLogin, JaasText
from kraft_trio.config.key import KEY, Key, ListOf, Text, config_key
from kraft_trio.config.secret import Secret
from kraft_trio.errors import ConfigError

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
SCRAM_MECHANISMS: Final = (SCRAM_SHA_256, SCRAM_SHA_512)
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS)


def _parse_mechanism(text: str) -> str:
    if text not in MECHANISMS:
        raise ValueError(f"{text!r} is not served")
    return text


def _parse_mechanism_if_any(text: str) -> str:
    return _parse_mechanism(text) if text else text


_JAAS: Final = JaasText("a line of Kafka's PlainLoginModule or ScramLoginModule")
_ALLOWED: Final = " or ".join(MECHANISMS)


def _jaas_key(mechanism: str) -> JaasLogin | None:
    key: JaasLogin | None = config_key(
        f"{mechanism.lower()}.sasl.jaas.config",
        _JAAS,
        f"Like `sasl.jaas.config`, for {mechanism} only.",
        default=None,
    )
    return key


@attrs.frozen
class Login:
    """What a client authenticates with."""

    mechanism: str
    username: str
    password: Secret


@attrs.frozen(kw_only=True)
class SaslFields:
    """One field for each key."""

    enabled_mechanisms: tuple[str, ...] = config_key(
        "sasl.enabled.mechanisms",
        ListOf(f"{_ALLOWED}, separated by commas", _parse_mechanism),
        "The mechanisms that a SASL listener accepts (Kafka's default is GSSAPI).",
        default=(),
    )
    controller_mechanism: str = config_key(
        "sasl.mechanism.controller.protocol",
        Text(_ALLOWED, _parse_mechanism_if_any),
        "The mechanism with which nodes authenticate to each other (Kafka's default is GSSAPI).",
        default="",
    )
    mechanism: str = config_key(
        "sasl.mechanism",
        Text(_ALLOWED, _parse_mechanism_if_any),
        "In the file of a client: the mechanism with which it authenticates (Kafka's default is GSSAPI).",
        default="",
    )
    jaas_config: JaasLogin | None = config_key(
        "sasl.jaas.config",
        _JAAS,
        'The user and password for connections to other nodes; with PlainLoginModule, `user_NAME="PASSWORD"` is a '
        "user whom listeners accept.",
        default=None,
    )
    plain_jaas_config: JaasLogin | None = _jaas_key(PLAIN)
    scram_sha_256_jaas_config: JaasLogin | None = _jaas_key(SCRAM_SHA_256)
    scram_sha_512_jaas_config: JaasLogin | None = _jaas_key(SCRAM_SHA_512)

    def login_of_node(self) -> Login:
        """What a node authenticates to the others with.  Raises ConfigError."""
        return self._login("controller_mechanism")

    def login_of_client(self) -> Login:
        """What a tool authenticates with.  Raises ConfigError."""
        return self._login("mechanism")

    def _login(self, field: str) -> Login:
        mechanism: str = getattr(self, field)
        if not mechanism:
            raise ConfigError(f"{SASL_KEY_OF_FIELD[field].name} is not set; expected {_ALLOWED}")
        return self._login_with(mechanism)

    def _login_with(self, mechanism: str) -> Login:
        name, jaas = self._jaas(mechanism)
        if jaas is None:
            raise ConfigError(f"{name} is not set: {mechanism} needs a username and a password")
        wanted = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
        if jaas.module != wanted:
            raise ConfigError(f"{name}: {mechanism} needs {wanted}, not {jaas.module}")
        if not (jaas.username and jaas.password):
            raise ConfigError(f"{name}: {mechanism} needs the options username and password")
        return Login(mechanism, jaas.username, jaas.password)

    def plain_users(self) -> Mapping[str, Secret]:
        """The passwords that a listener with PLAIN accepts, by user.  Raises ConfigError."""
        name, jaas = self._jaas(PLAIN)
        if jaas is None or jaas.module != PLAIN_MODULE:
            raise ConfigError(f"{name}: a listener with PLAIN needs {PLAIN_MODULE}")
        if not all(jaas.users) or not all(jaas.users.values()):
            raise ConfigError(f"{name}: a user or a password is empty")
        return jaas.users

    def _jaas(self, mechanism: str) -> tuple[str, JaasLogin | None]:
        """The key for that mechanism, and its value."""
        field = f"{mechanism.lower().replace('-', '_')}_jaas_config"
        own: JaasLogin | None = getattr(self, field)
        if own is None and self.jaas_config is not None:
            field, own = "jaas_config", self.jaas_config
        return SASL_KEY_OF_FIELD[field].name, own


SASL_KEY_OF_FIELD: Mapping[str, Key] = {field.name: field.metadata[KEY] for field in attrs.fields(SaslFields)}
"""The key of each field of `SaslFields`."""

SASL_KEYS: tuple[tuple[Key, str], ...] = tuple(
    (field.metadata[KEY], field.metadata[KEY].kind.format(field.default)) for field in attrs.fields(SaslFields)
)
"""Each key with the text of its default."""
