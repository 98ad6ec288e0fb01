"""All decoders of foreign bytes, by name."""

from __future__ import annotations

from scripts.fuzzing.decoder import Decoder
from scripts.fuzzing.decoders import batches, clients, configuration, dashboard, files, values, wire

DECODERS: dict[str, Decoder] = {
    decoder.name: decoder
    for module in (wire, batches, clients, dashboard, values, files, configuration)
    for decoder in module.DECODERS
}
