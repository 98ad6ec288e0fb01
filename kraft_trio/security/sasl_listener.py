"""What the listeners with SASL need to authenticate their clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import attrs

from kraft_trio.config import NodeConfig
from kraft_trio.config.sasl_fields import PLAIN, SaslFields
from kraft_trio.errors import ConfigError
from kraft_trio.security.sasl_mechanisms import PlainServer, ScramServer, ServerMechanism
from kraft_trio.security.sasl_server import SaslExchange, ServesVersions
from kraft_trio.security.scram_users import ScramUsers


@attrs.frozen
class SaslListener:
    """The mechanisms and time limits of one listener."""

    name: str
    mechanisms: Mapping[str, Callable[[], ServerMechanism]]
    time_limit_s: float
    """Of a whole exchange."""
    failure_delay_s: float
    """How long the answer to a failed exchange waits, so that nobody tries passwords quickly."""
    session_ms: int = 0
    """Time after which a client must authenticate again (`connections.max.reauth.ms`); 0: never."""
    users: ScramUsers | None = None
    """Those of SCRAM, which all listeners share."""

    def exchange(self, versions: ServesVersions, only_user: str | None = None) -> SaslExchange:
        """A new one, for one connection.  `only_user`: who has authenticated on it before."""
        return SaslExchange(self.name, self.mechanisms, versions, self.session_ms, only_user)


def sasl_listeners(config: NodeConfig) -> Mapping[str, SaslListener]:
    """The listeners with SASL, by name.  Raises ConfigError."""
    users: ScramUsers | None = None
    listeners = {}
    for listener in config.listeners:
        sasl = config.sasl_of(listener.name)
        if sasl is None:
            continue
        if users is None and any(mechanism != PLAIN for mechanism in sasl.enabled_mechanisms):
            users = ScramUsers(config.scram_credentials_path)
        listeners[listener.name] = SaslListener(
            listener.name,
            _mechanisms(listener.name, sasl, users),
            config.first_request_timeout_ms / 1000,
            config.failed_authentication_delay_ms / 1000,
            config.connections_max_reauth_ms,
            users,
        )
    return listeners


def _mechanisms(
    listener_name: str, sasl: SaslFields, users: ScramUsers | None
) -> Mapping[str, Callable[[], ServerMechanism]]:
    if not sasl.enabled_mechanisms:
        raise ConfigError(f"sasl.enabled.mechanisms is not set: the listener {listener_name} needs one")
    mechanisms: dict[str, Callable[[], ServerMechanism]] = {}
    for mechanism in sasl.enabled_mechanisms:
        if mechanism == PLAIN:
            mechanisms[mechanism] = partial(PlainServer, sasl.plain_users())
        else:
            assert users is not None, "SCRAM without its users"
            mechanisms[mechanism] = partial(ScramServer, mechanism, users.credential)
    return mechanisms
