"""Writes the parts of the documentation that come from the code: `python -m docs.generate`.

A generated part stands between a line `<!-- generated: NAME -->` and a line `<!-- end -->`.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import textwrap
from collections.abc import Callable, Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import kraft_trio
from docs.alerts import alerts
from docs.commands import command_line, variables
from docs.faults import faults_of_real_nodes
from docs.public_api import public_api
from docs.questions import questions
from docs.rooms import layers, rooms
from docs.rules import cases, differences, rule_counts, rule_tables
from docs.spark_tables import SPARK_TABLES
from docs.tables import first_sentence, table
from kraft_trio.actors.network.server_connection import MAX_READING_BYTES
from kraft_trio.config import KEYS
from kraft_trio.config.key import MAX_INT32, MAX_INT64, Integer, Key, Kind
from kraft_trio.config.sasl_fields import SASL_KEYS
from kraft_trio.config.tls_fields import TLS_KEYS
from kraft_trio.diagnosis.findings.table import RULES
from kraft_trio.kv.budget import (
    KEYS_PER_PIECE,
    MAX_ANSWER_BYTES,
    MAX_COMMAND_BYTES,
    MAX_COMMAND_ITEMS,
    MAX_DEPTH,
    MAX_KEYS,
    MAX_LISTED_OPERATIONS,
    MAX_OPERATIONS,
)
from kraft_trio.kv.proto_json import MAX_ITEMS
from kraft_trio.metrics.definitions import METRICS
from kraft_trio.protocol.epoch_limits import EPOCHS_AT_ONCE
from kraft_trio.protocol.roles import TRANSITIONS, EpochChange, Event
from kraft_trio.security.sasl_mechanisms import MAX_SCRAM_TOKEN_BYTES
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.invariants import INVARIANTS
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.script.catalog import STEP_MODULES
from kraft_trio.simulation.script.header import HEADER_ITEMS
from kraft_trio.simulation.script.step import STEPS
from kraft_trio.spark.schemas import TRACE
from kraft_trio.status.app import EXPLANATIONS_PER_S, REQUESTS_PER_S
from kraft_trio.storage.batches.record_limits import MAX_BATCH_HEADERS, MAX_EXPANSION, MAX_HEADERS, MAX_RECORDS
from kraft_trio.testing import SimulatedMachine, VirtualCluster
from kraft_trio.tracing.events import TraceEvent
from kraft_trio.wire.api import APIS
from kraft_trio.wire.schema_reader import REQUEST_ELEMENTS

LIMITS = (
    (
        "max.connections",
        "number-of-refused-connections",
        "The longest idle connection closes, or one of the address with the most, or the new one.",
    ),
    ("max.connections.per.ip", "number-of-refused-connections", "The new connection closes."),
    ("connections.max.idle.ms", "number-of-cut-connections", "The connection closes."),
    ("kraft.first.request.timeout.ms", "number-of-cut-connections", "The connection closes, also in its handshake."),
    ("kraft.request.grace.ms", "number-of-cut-connections", "The connection closes."),
    ("kraft.answer.grace.ms", "number-of-cut-connections", "The connection closes."),
    ("kraft.transfer.min.bytes.per.second", "number-of-cut-connections", "The connection closes."),
    ("socket.request.max.bytes", "number-of-malformed-requests", "The connection closes."),
    ("kraft.initial.request.max.bytes", "number-of-malformed-requests", "The connection closes."),
    ("queued.max.request.bytes", "number-of-slowed-requests", "The request waits."),
    ("kraft.connection.max.request.bytes", "number-of-slowed-requests", "The request waits; a larger one closes it."),
    ("kraft.connection.max.in.flight.requests", "number-of-paused-connections", "The connection is not read further."),
    ("message.max.bytes", "number-of-refused-batches", "MESSAGE_TOO_LARGE."),
    ("kraft.decompressed.max.bytes", "number-of-refused-batches", "INVALID_RECORD."),
    (
        "kraft.waiting.fetches.max",
        "number-of-refused-waits",
        "It, or the oldest one of the address with the most, is answered at once.",
    ),
    ("kraft.waiting.fetches.max.per.connection", "number-of-refused-waits", "The Fetch is answered at once."),
    ("kraft.waiting.observers.max", "number-of-refused-waits", "The Fetch is answered at once."),
    ("kraft.producer.ids.max", "number-of-producer-ids", "The longest silent one is forgotten."),
    ("kraft.voter.changes.max.waiting", "number-of-refused-voter-changes", "REQUEST_TIMED_OUT at once."),
    ("kraft.voter.changes.per.minute", "number-of-throttled-voter-changes", "THROTTLING_QUOTA_EXCEEDED."),
    ("kraft.voter.changes.burst", "number-of-throttled-voter-changes", "THROTTLING_QUOTA_EXCEEDED."),
    ("kraft.http.max.connections", "number-of-refused-connections", "A waiting connection closes, or the new one."),
    ("kraft.http.max.connections.per.ip", "number-of-refused-connections", "As above, of the same address."),
    ("kraft.http.max.streams", "number-of-refused-streams", "A stream of the address with the most ends, or 503."),
    ("kraft.http.request.timeout.ms", "number-of-cut-connections", "408, or the connection closes."),
    ("kraft.http.idle.timeout.ms", "number-of-cut-connections", "The connection closes."),
    ("kraft.log.text.max.characters", "number-of-shortened-log-texts", "The text is cut."),
)
"""The limits that can be set: the key, the metric that counts what is over it, and what becomes of that."""
FIXED_LIMITS = (
    (REQUEST_ELEMENTS, "Array elements and tagged fields of one request."),
    (MAX_READING_BYTES, "Bytes of a Fetch or FetchSnapshot request.  A larger one closes its connection."),
    (MAX_SCRAM_TOKEN_BYTES, "Bytes of a token of SCRAM.  A larger one fails the login."),
    (MAX_RECORDS, "Records of a produced batch."),
    (MAX_HEADERS, "Headers of a produced record."),
    (MAX_BATCH_HEADERS, "Headers of all records of a produced batch."),
    (MAX_EXPANSION, "Decompressed size of a batch as a multiple of its compressed size, if that exceeds 4 MiB."),
    (REQUESTS_PER_S, "Requests to `kraft.http.listener` per second, of all clients.  Further ones wait."),
    (EXPLANATIONS_PER_S, "Situations that it explains per second.  Further requests wait, apart from the others."),
    (EPOCHS_AT_ONCE, "Epochs by which requests move a node at once; one per second in the long run."),
)
KV_LIMITS = (
    (MAX_COMMAND_BYTES, "Bytes of a command in the log."),
    (MAX_COMMAND_ITEMS, "Its numbers, texts and lists, counted before they are decoded."),
    (MAX_ITEMS, "Objects, arrays, fields and elements of a JSON message, counted before they are decoded."),
    (MAX_LISTED_OPERATIONS, "Operations in each list of a transaction; a nested one has what its parent leaves."),
    (MAX_OPERATIONS, "Comparisons and operations of a transaction in all, with those of nested ones."),
    (MAX_DEPTH, "Transactions within one another."),
    (MAX_KEYS, "Keys that the comparisons, ranges and deletions of a transaction look at, each time."),
    (MAX_ANSWER_BYTES, "Bytes in the answer to a transaction or a deletion, with 256 for each key."),
    (KEYS_PER_PIECE, "Keys that are looked at before others get a turn."),
)
"""What one command of the key-value store may cost."""
DOCUMENTS = Path(__file__).parent
PUBLIC_API = DOCUMENTS / "reference" / "public-api.txt"
INTEROP_RESULTS = DOCUMENTS.parent / "tests" / "interop" / "results.json"
_EPOCH_CHANGES = {
    EpochChange.SAME: "",
    EpochChange.NEXT: ", epoch + 1",
    EpochChange.HIGHER: ", higher epoch",
    EpochChange.SAME_OR_HIGHER: ", same or higher epoch",
}
_PART = re.compile(r"(?<=<!-- generated: )(?P<name>\S+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)


def transitions() -> str:
    """The transition table as a Mermaid state diagram, one line a row; a star marks a transition that is stored."""
    lines = []
    for (origin, event), transition in TRANSITIONS.items():
        epoch = "" if event is Event.HIGHER_EPOCH_SEEN else _EPOCH_CHANGES[transition.epoch]
        label = event.name.lower().replace("_", " ") + epoch + (" *" if transition.durable else "")
        lines.append(f"    {origin.__name__} --> {transition.to.__name__}: {label}\n")
    return f"```mermaid\nstateDiagram-v2\n{''.join(lines)}```\n"


def explained() -> str:
    """What `explain` says: a row for each rule, in the order of the table, the most severe severity first."""
    rows = [
        (f"`{rule.code}`", rule.when.value, " or ".join(one.value for one in rule.severities), rule.cause, rule.advice)
        for rule in RULES
    ]
    return table(("code", "if", "severity", "what is so", "what it advises"), rows)


def versions() -> str:
    rows = [
        (
            api.name,
            str(key),
            f"{api.advertised_min_version}–{api.max_version}",
            f"{api.flexible_version}+" if api.flexible_version <= api.max_version else "",
        )
        for key, api in sorted(APIS.items())
    ]
    return table(("API", "key", "versions", "flexible"), rows)


def config_keys(keys: Iterable[tuple[Key, str | None]] = KEYS) -> str:
    rows = []
    for key, default in keys:
        shown = "must be set" if default is None else f"`{default}`" if default else ""
        unit = f" {key.unit}" if key.unit and default is not None and not key.name.endswith(f".{key.unit}") else ""
        rows.append((f"`{key.name}`", f"{shown}{unit}", _allowed(key.kind), key.meaning))
    return table(("key", "default", "allowed", "meaning"), rows)


def _allowed(kind: Kind) -> str:
    """A range without an upper bound that only the type of the value sets; `…` for a list."""
    if isinstance(kind, Integer) and kind.maximum in (MAX_INT32, MAX_INT64):
        return f"≥ {kind.minimum}"
    return kind.allowed.replace(", separated by commas", ", …")


def limits() -> str:
    return table(("limit", "of what"), ((f"{value}", meaning) for value, meaning in FIXED_LIMITS))


def kv_limits() -> str:
    return table(("limit", "of what"), ((f"{value}", meaning) for value, meaning in KV_LIMITS))


def configured_limits() -> str:
    keys = {key.name: (default, key) for key, default in KEYS}
    known = {metric.name for metric in METRICS}
    rows = []
    for name, metric, outcome in LIMITS:
        default, key = keys[name]
        if metric not in known:
            raise ValueError(f"{name}: there is no metric {metric}")
        rows.append((key.meaning, f"`{name}`", f"{default} {key.unit}".strip(), f"`{metric}`", outcome))
    return table(("limit", "key", "default", "metric", "what is over it"), rows)


def metrics() -> str:
    """One row a name; a controller and a broker may export it by different names."""
    rows: dict[tuple[str, str], list[str]] = {}
    for metric in METRICS:
        role = f" ({metric.role})" if metric.role else ""
        unit = f" ({metric.unit})" if metric.unit else ""
        labels = (metric.label,) if metric.label else metric.dimensions
        label = "{" + ", ".join(f'{name}="…"' for name in labels) + "}" if labels else ""
        row = rows.setdefault((f"`{metric.name}`", metric.meaning.removesuffix(".") + unit + "."), [])
        row.append(f"`{metric.prometheus_name}{label}`{role}")
    return table(
        ("metric", "in Prometheus (role)", "meaning"),
        ((name, ", ".join(exported), meaning) for (name, meaning), exported in rows.items()),
    )


def scenario_header() -> str:
    return table(("line", "what it says"), ((f"`{i.syntax}`", i.summary) for i in HEADER_ITEMS.values()))


def scenario_steps() -> str:
    parts = []
    for module in STEP_MODULES:
        title = (module.__doc__ or "").split("\n")[0]
        steps = [step for step in STEPS.values() if step.does.__module__ == module.__name__]
        parts.append(f"{title}\n\n" + table(("step", ""), ((f"`{s.syntax}`", s.summary) for s in steps)))
    return "\n".join(parts)


def invariants() -> str:
    rows = (
        (str(invariant.number), f"`{invariant.__name__}`", invariant.title)
        for invariant in sorted(INVARIANTS, key=lambda invariant: invariant.number)
    )
    return table(("", "class", "what must hold"), rows)


def public_names() -> str:
    """Those that the page does not name elsewhere."""
    elsewhere = _PART.sub("", (DOCUMENTS / "reference" / "library.md").read_text())
    others = [name for name in kraft_trio.__all__ if name not in {error.__name__ for error in _errors()}]
    names = [f"`{name}`" for name in others if not re.search(rf"\b{name}\b", elsewhere)]
    return textwrap.fill(", ".join(names) + ".", 120) + "\n"


def errors() -> str:
    """The public errors, each with its docstring."""
    rows = ((f"`{one.__name__}`", f"`{one.__mro__[1].__name__}`", _whole(one)) for one in _errors())
    return table(("error", "is a", "meaning"), rows)


def _errors() -> list[type]:
    named = [getattr(kraft_trio, name) for name in kraft_trio.__all__]
    return [one for one in named if inspect.isclass(one) and issubclass(one, kraft_trio.KraftError)]


def _whole(named: object) -> str:
    return " ".join((inspect.getdoc(named) or "").split())


def _first_sentence_of(named: object) -> str:
    return first_sentence(inspect.getdoc(named) or "")


def methods(cls: type, *, explained: Collection[str] = (), of: Callable[[object], str] = _first_sentence_of) -> str:
    """The public methods and properties of a class, each with what `of` takes from its docstring."""
    members: dict[str, Any] = {}
    for owner in cls.__mro__:
        if owner.__module__.startswith("kraft_trio."):
            members = {**members, **{name: member for name, member in vars(owner).items() if name not in members}}
    rows = []
    for name, member in members.items():
        if name[0] != "_" and name not in explained and (inspect.isfunction(member) or isinstance(member, property)):
            rows.append((f"`{_call(name, member)}`", of(member)))
    return table(("name", "what it does"), rows)


def _explained_methods() -> set[str]:
    """The methods of a node that the text of the page shows as `node.method`."""
    text = _PART.sub("", (DOCUMENTS / "reference" / "library.md").read_text())
    without_programs = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"\bnode\.(\w+)", without_programs))


def _call(name: str, member: Callable[..., object] | property) -> str:
    """How a method is called, with the defaults of its arguments; the name alone for a property."""
    if isinstance(member, property):
        return name
    _self, *arguments = inspect.signature(member).parameters.values()
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = [
        stars.get(one.kind, "") + one.name + ("" if one.default is one.empty else f"={one.default!r}")
        for one in arguments
    ]
    return ("await " if inspect.iscoroutinefunction(member) else "") + f"{name}({', '.join(shown)})"


def trace_event() -> str:
    """The fields of an event, with what Spark's table of a trace says of its columns."""
    types = {name: _trace_type(annotation) for name, annotation in TraceEvent.__annotations__.items()}
    meanings = {one.name: one.meaning for one in TRACE} | {
        "details": "further values by kind: numbers, text, booleans, nulls, and lists of these"
    }
    rows = ((f"`{name}`", type_, meanings[name]) for name, type_ in types.items())
    return table(("field", "type", "meaning"), rows)


def _trace_type(annotation: str) -> str:
    text = re.sub(r"tuple\[(\w+), \.\.\.\]", r"list of \1", annotation).replace(" | None", "?")
    return "map" if text.startswith("Mapping") else text


def interop_matrix() -> str:
    """What `scripts/test --interop --record-interop` has found."""
    rows = []
    for system, versions in sorted(json.loads(INTEROP_RESULTS.read_text()).items(), key=lambda row: row[0].lower()):
        rows += [(system, version, _interop_result(found)) for version, found in sorted(versions.items())]
    return table(("system", "version", "result"), rows)


def _interop_result(found: dict[str, Any]) -> str:
    tests = f"{found['passed']} test{'s' * (found['passed'] != 1)}"
    parts = [f"**{found['failed']} fail**"] if found["failed"] else []
    parts += [f"works ({tests})"] if found["passed"] else []
    parts += [f"{found['skipped']} not run: {'; '.join(found['reasons'])}"] if found["skipped"] else []
    return ". ".join([*parts, *found["says"]])


GENERATORS: dict[str, Callable[[], str]] = {
    "commands": command_line,
    "variables": variables,
    "differences": differences,
    "cases-opening": partial(cases, "opening"),
    "cases-crash": partial(cases, "crash"),
    "cases-membership-errors": partial(cases, "membership-errors"),
    "alerts": alerts,
    "faults-of-real-nodes": faults_of_real_nodes,
    "layers": layers,
    "rooms-actors": partial(rooms, "actors"),
    "rooms-storage": partial(rooms, "storage"),
    "trace-event": trace_event,
    "rules": rule_tables,
    "rule-counts": rule_counts,
    "transitions": transitions,
    "versions": versions,
    "limits": limits,
    "kv-limits": kv_limits,
    "configured-limits": configured_limits,
    "config-keys": config_keys,
    "tls-keys": partial(config_keys, TLS_KEYS),
    "sasl-keys": partial(config_keys, SASL_KEYS),
    "findings": explained,
    "metrics": metrics,
    "scenario-header": scenario_header,
    "scenario-steps": scenario_steps,
    "invariants": invariants,
    "public-names": public_names,
    "errors": errors,
    "methods-state-machine": lambda: methods(kraft_trio.StateMachine, of=_whole),
    "methods-node": lambda: methods(kraft_trio.Node, explained=_explained_methods()),
    "methods-log-client": lambda: methods(kraft_trio.LogClient),
    "methods-admin-client": lambda: methods(kraft_trio.AdminClient),
    "methods-virtual-cluster": lambda: methods(VirtualCluster),
    "methods-simulated-machine": lambda: methods(SimulatedMachine, explained=vars(kraft_trio.StateMachine), of=_whole),
    "optional-methods-simulated-machine": lambda: (inspect.getdoc(SimulatedMachine) or "").partition("\n\n")[2] + "\n",
    "methods-cluster": lambda: methods(Cluster),
    "methods-machine": lambda: methods(Machine),
    "interop-matrix": interop_matrix,
    "metadata-questions": questions,
    **SPARK_TABLES,
}


def regenerated(text: str, document: Path) -> str:
    """The document with every generated part regenerated.  Raises KeyError for a part that nothing generates.

    What the code says of itself has links from the top of the repository.
    """
    to_docs = os.path.relpath(DOCUMENTS, document.parent)

    def part(match: re.Match[str]) -> str:
        generated = GENERATORS[match["name"]]()
        generated = generated.replace("](docs/", f"]({to_docs}/")
        generated = re.sub(r"\]\((?=(?:benchmarks|deploy|kraft_trio|spec|tests)/)", f"]({to_docs}/../", generated)
        return f"{match['name']} -->\n{generated}"

    return _PART.sub(part, text)


def main() -> None:
    for document in sorted(DOCUMENTS.rglob("*.md")):
        text = document.read_text()
        if (new := regenerated(text, document)) != text:
            document.write_text(new)
            print(f"{document.relative_to(DOCUMENTS)}: updated")
    if (new := public_api()) != PUBLIC_API.read_text():
        PUBLIC_API.write_text(new)
        print(f"{PUBLIC_API.relative_to(DOCUMENTS)}: updated; a change of the public API belongs in CHANGELOG.md")


if __name__ == "__main__":
    main()
