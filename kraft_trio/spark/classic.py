"""Says at once where a session of Spark Connect is not enough."""

from __future__ import annotations

from typing import Any, Final

from kraft_trio.errors import ConfigError

_CONNECT: Final = "pyspark.sql.connect."


def check_classic(spark: Any, what: str) -> None:
    """Raise ConfigError for a session of Spark Connect, which has no way to run jobs like those of `what`."""
    if type(spark).__module__.startswith(_CONNECT):
        raise ConfigError(
            f"{what} needs a classic Spark session, and this one is of Spark Connect; expected one that "
            "SparkSession.builder.master(…) or kraft_trio.spark.session(…) makes, without SPARK_REMOTE"
        )
