"""The alerts of deploy/prometheus/alerts.yml as a table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import yaml

from docs.tables import table

SOURCE: Final = Path(__file__).parent.parent / "deploy" / "prometheus" / "alerts.yml"

_LABEL = re.compile(r"\{\{ \$(?:labels\.)?(\w+) \}\}")
_METRIC = re.compile(r"\b(?:kafka|kraft)_\w+\b")


def alerts() -> str:
    rows = []
    for group in yaml.safe_load(SOURCE.read_text())["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                said = rule["annotations"]
                metrics = dict.fromkeys(f"`{name}`" for name in _METRIC.findall(rule["expr"]))
                when = (
                    f"{rule['labels']['severity']}, after {rule['for']}"
                    if "for" in rule
                    else rule["labels"]["severity"]
                )
                rows.append(
                    (f"`{rule['alert']}`", when, _plain(said["summary"]), ", ".join(metrics), _plain(said["action"]))
                )
    return table(("alert", "urgency", "what is so", "metrics", "what to do"), rows)


def _plain(text: str) -> str:
    return _LABEL.sub(lambda label: "*" + label[1].replace("_", " ") + "*", text)
