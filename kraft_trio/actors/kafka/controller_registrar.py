"""Registers a witness with the active controller of Apache Kafka, as its controllers register (KIP-919)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import trio

from kraft_trio.actors.context.epoch_context import EpochContext
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.features import claimed_features
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import Endpoint, VersionRange
from kraft_trio.wire.apis.controller_registration import (
    CONTROLLER_REGISTRATION,
    ControllerListener,
    ControllerRegistrationRequest,
)
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

MAX_BACKOFF_S: Final = 60.0


class Registration:
    """What the active controllers have acknowledged of this process."""

    def __init__(self, incarnation_id: UUID) -> None:
        self.incarnation_id = incarnation_id
        self.features: dict[str, VersionRange] | None = None
        """The features that were registered; None before."""


class ControllerRegistrar:
    """Runs while this node follows one leader.  It registers once, and again if a leader knows further features.

    The leader appends a record for each registration, so it is not repeated otherwise.  What is known of a leader may
    be of its process before an upgrade, until a connection to the new one is made.
    """

    def __init__(self, context: EpochContext, role: Follower, registration: Registration) -> None:
        self._context = context
        self._endpoint = role.leader_endpoints.get(context.config.controller_listener_name)
        self._registration = registration

    async def run(self) -> None:
        """Register whenever the leader knows features that are not registered, until cancelled."""
        if self._endpoint is None:
            return
        first_delay_s = delay_s = self._context.config.fetch_timeout_ms / 1000
        while True:
            features = self._further_features(self._endpoint)
            if features is None:
                await self._context.controllers.changed.park()
            elif await self._register(self._endpoint, features):
                self._registration.features = features
                self._context.controllers.has_registered = True
                delay_s = first_delay_s
            else:
                self._context.controllers.has_registered = self._registration.features is not None
                await trio.sleep(delay_s)
                delay_s = min(MAX_BACKOFF_S, 2 * delay_s)

    def _further_features(self, endpoint: Endpoint) -> dict[str, VersionRange] | None:
        """The features to register.  None if all are registered, or if the leader is not known to be Kafka's."""
        versions = self._context.controllers.versions_of(endpoint)
        if versions is None:
            return None
        features = claimed_features(feature.name for feature in versions.supported_features)
        known = self._registration.features
        if known is not None and features.keys() <= known.keys():
            return None
        return {**(known or {}), **features}

    async def _register(self, endpoint: Endpoint, features: dict[str, VersionRange]) -> bool:
        """Send the request once.  Returns whether the controller has acknowledged it."""
        config = self._context.config
        listeners = tuple(
            ControllerListener(name, advertised, config.security_protocol_of(name))
            for name, advertised in config.advertised_endpoints()
            if name in config.controller_listener_names
        )
        request = ControllerRegistrationRequest(config.node_id, self._registration.incarnation_id, listeners, features)
        try:
            # Fetches continue, because the controller answers when they have committed its record.
            response = await self._context.client.request_apart(
                endpoint, CONTROLLER_REGISTRATION, request, config.request_timeout_ms * 2
            )
        except (NetworkError, UnsupportedVersionError) as error:
            log.info("registration not delivered", endpoint=str(endpoint), reason=str(error))
            return False
        if response.error != ErrorCode.none:
            reason = response.error_message or response.error.name
            # A controller that has just been elected first reads its log.
            level = log.info if response.error == ErrorCode.not_controller else log.warning
            level("registration refused", endpoint=str(endpoint), reason=reason)
            return False
        log.info("registered as a controller", endpoint=str(endpoint), features=",".join(sorted(features)))
        return True
