"""JSON that every reader takes."""

from __future__ import annotations

import json
import math
from typing import Any


class JsonText:
    """Makes JSON, where a number that JSON does not have is text, as Kafka's tools print it: "NaN", "Infinity"."""

    def __init__(self, **options: Any) -> None:
        """`options` are those of `json.JSONEncoder`."""
        self._encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, **options)

    def __call__(self, value: Any) -> str:
        try:
            return self._encoder.encode(value)
        except ValueError:
            return self._encoder.encode(_with_texts(value))


def _with_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_texts(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(one) for one in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
