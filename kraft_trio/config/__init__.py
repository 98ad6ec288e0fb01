"""A node's configuration: Kafka's `.properties` file, read into one validated value with the units in its names."""

from kraft_trio.config.fields import KEYS
from kraft_trio.config.node_config import LoadedConfig, NodeConfig, check_is_config, load_config, parse_config

__all__ = ["KEYS", "LoadedConfig", "NodeConfig", "check_is_config", "load_config", "parse_config"]
