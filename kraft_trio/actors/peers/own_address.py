"""Whether anybody listens at the address that this node announces (`advertised.listeners`)."""

from __future__ import annotations

from typing import Final

import attrs
import trio

from kraft_trio.config import NodeConfig
from kraft_trio.errors import NetworkError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.types import Endpoint, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.wire.network import Network

log = get_logger(__name__)

LOOK_EVERY_S: Final = 5.0
WITHIN_S: Final = 2.0


class OwnAddress:
    """Connects to the announced address of the controller listener until somebody accepts the connection.

    Until then, a leader does not put the address into the voter set, where no other voter could find it any more.  An
    address that does not answer at all is not held against the node: behind a NAT, a node may not reach its own.
    """

    def __init__(self, secured: Network, network: Network, config: NodeConfig) -> None:
        """`network` has no TLS and SASL: any answer counts.  `secured` causes no failed handshake."""
        self._secured = secured
        self._network = network
        self._config = config
        listener = config.controller_listener_name
        self._announced = config.advertised_endpoints().get(listener)
        own = [one.endpoint for one in config.listeners if one.name == listener]
        self._is_known = self._announced is None or self._announced in own
        self._changed = trio.Event()
        self.dead: Endpoint | None = None
        """The announced address, if connections there were refused or its name is unknown."""

    @property
    def may_be_listed(self) -> bool:
        """Whether the voter set may have the address."""
        return self._is_known

    def entry_of(self, own: ReplicaKey, voters: VoterSet) -> Voter:
        """What the voter set is to say of this node.

        It keeps the known address, of a static voter the configured one, if the announced one may not be listed.
        """
        entry = self._config.as_voter(own.directory_id)
        known = voters.get(own.id)
        if known is None or not known.key.names(own.id, own.directory_id) or self.may_be_listed:
            return entry
        return attrs.evolve(entry, endpoints=known.endpoints)

    async def until_it_may_be_listed(self) -> None:
        if not self._is_known:
            await self._changed.wait()

    async def run(self) -> None:
        """Look until the address may be listed."""
        while not self._is_known and self._announced is not None:
            try:
                with trio.move_on_after(WITHIN_S):
                    await trio.aclose_forcefully(await self._connect(self._announced))
            except NetworkError as error:
                if self.dead is None:
                    self.dead = self._announced
                    log.error(
                        "nobody listens at the announced address: correct advertised.listeners",
                        endpoint=str(self._announced),
                        reason=str(error),
                    )
                await trio.sleep(LOOK_EVERY_S)
                continue
            self._is_known, self.dead = True, None
            self._changed.set()

    async def _connect(self, endpoint: Endpoint) -> trio.abc.AsyncResource:
        try:
            return await self._secured.connect(endpoint)
        except NetworkError:
            if self._secured is self._network:
                raise
            return await self._network.connect(endpoint)
