"""`kraft kv`: uses the key-value store, with the commands and options of etcdctl."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import click

from kraft_trio.cli.kv_client import KvClient
from kraft_trio.cli.kv_txn import parse_txn
from kraft_trio.cli.terminal.variables import FromVariable
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.config.key import MAX_INT32, MAX_INT64
from kraft_trio.errors import ConfigError
from kraft_trio.kv.intervals import TO_THE_END, prefix_end
from kraft_trio.kv.proto_json import dumps
from kraft_trio.kv.requests import (
    AlarmAction,
    AlarmRequest,
    AlarmType,
    CompactionRequest,
    DeleteRangeRequest,
    LeaseGrantRequest,
    LeaseKeepAliveRequest,
    LeaseRevokeRequest,
    LeaseTimeToLiveRequest,
    PutRequest,
    RangeRequest,
    SortOrder,
    SortTarget,
    WatchCreateRequest,
    WatchRequest,
)
from kraft_trio.kv.responses import (
    AlarmResponse,
    CompactionResponse,
    DeleteRangeResponse,
    EventType,
    KeyValue,
    LeaseGrantResponse,
    LeaseKeepAliveResponse,
    LeaseLeasesResponse,
    LeaseRevokeResponse,
    LeaseTimeToLiveResponse,
    PutResponse,
    RangeResponse,
    ResponseOp,
    TxnResponse,
    WatchResponse,
)

_DEFAULT_ENDPOINT: Final = "http://127.0.0.1:2379"
_key_argument = click.argument("key")
_end_argument = click.argument("range_end", required=False)
_prefix_option = click.option("--prefix", is_flag=True, help="All keys that begin with KEY.")
_from_key_option = click.option("--from-key", is_flag=True, help="All keys from KEY on.")


class _Seconds(click.FloatRange):
    """Within bounds; nan is outside of all."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


class _LeaseId(click.ParamType[int]):
    """The id of a lease, which is written in hexadecimal as etcdctl does."""

    name = "id"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            number = int(str(value), 16)
        except ValueError:
            number = -1
        if not 0 <= number < 2**64:
            self.fail(f"{value!r} is not a hexadecimal number of 64 bits", param, ctx)
        return number - 2**64 if number >= 2**63 else number


_LEASE = _LeaseId()


class _Output:
    """Prints answers as text or as JSON."""

    def __init__(self, client: KvClient, as_json: bool) -> None:
        self.client = client
        self.as_json = as_json

    def write(self, response: object, *lines: bytes) -> None:
        out = sys.stdout.buffer
        for line in [dumps(response)] if self.as_json else lines:
            out.write(line + b"\n")
        out.flush()


def _use_json(context: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
    if is_given and context.obj is not None:
        context.obj.as_json = True


class _Command(click.Command):
    """Has --json, as the commands of other groups do."""

    def __init__(self, *given: Any, **attributes: Any) -> None:
        super().__init__(*given, **attributes)
        told = "Print each answer as JSON, as -w json does."
        self.params.append(click.Option(["--json"], is_flag=True, expose_value=False, callback=_use_json, help=told))


class _Group(click.Group):
    command_class = _Command
    group_class = type


@click.group(cls=_Group)
@click.option(
    "--endpoints",
    cls=FromVariable,
    envvar="KRAFT_KV_ENDPOINTS",
    default=_DEFAULT_ENDPOINT,
    show_default=True,
    metavar="URL,...",
    help="The gateways of any nodes.",
)
@click.option(
    "-w",
    "--write-out",
    type=click.Choice(["simple", "json"]),
    default="simple",
    show_default=True,
    help="How to print answers.",
)
@click.option(
    "--timeout",
    type=_Seconds(0.1, MAX_INT32),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit for each request.",
)
@click.pass_context
def kv(ctx: click.Context, endpoints: str, write_out: str, timeout: float) -> None:
    """Use the key-value store of a quorum."""
    try:
        urls = [_url(endpoint.strip()) for endpoint in endpoints.split(",")]
    except ValueError as error:
        raise ConfigError(f"--endpoints {endpoints}: {error}; expected URLs such as {_DEFAULT_ENDPOINT}") from error
    ctx.obj = _Output(KvClient(urls, timeout), write_out == "json")


def _url(text: str) -> str:
    """With a scheme, and without a slash at the end.  Raises ValueError."""
    url = (text if "://" in text else f"http://{text}").rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii():
        raise ValueError("no address of a gateway")
    parts.hostname.encode("idna")  # which refuses what the connection would
    _ = parts.port  # too
    return url


@kv.command()
@_key_argument
@_end_argument
@_prefix_option
@_from_key_option
@click.option("--rev", type=WholeNumber(0, MAX_INT64), default=0, help="The state at this revision.")
@click.option("--limit", type=WholeNumber(0, MAX_INT64), default=0, help="At most so many keys.")
@click.option("--order", type=click.Choice(["ASCEND", "DESCEND"]), help="The order of the keys.")
@click.option(
    "--sort-by",
    type=click.Choice(list(SortTarget.__members__)),
    default="KEY",
    show_default=True,
    help="What to order by.",
)
@click.option("--keys-only", is_flag=True, help="Print keys without their values.")
@click.option("--print-value-only", is_flag=True, help="Print values without their keys.")
@click.option("--count-only", is_flag=True, help="Print the number of keys.")
@click.option("--serializable", is_flag=True, help="Read the state of one node, which may be behind.")
@click.pass_obj
def get(
    output: _Output,
    key: str,
    range_end: str | None,
    prefix: bool,
    from_key: bool,
    rev: int,
    limit: int,
    order: str | None,
    sort_by: str,
    keys_only: bool,
    print_value_only: bool,
    count_only: bool,
    serializable: bool,
) -> None:
    """Print keys with their values.

    Prints KEY, or the keys from KEY to RANGE_END (exclusive), each followed by its value.
    """
    start, end = _range(key, range_end, prefix, from_key)
    request = RangeRequest(
        start,
        end,
        limit,
        rev,
        SortOrder[order] if order else SortOrder.NONE,
        SortTarget[sort_by],
        serializable,
        keys_only,
        count_only,
    )
    response = output.client.post("/v3/kv/range", request, RangeResponse)
    if count_only:
        output.write(response, b"%d" % response.count)
    elif print_value_only:
        output.write(response, *(found.value for found in response.kvs))
    else:
        output.write(response, *_lines(response.kvs, keys_only=keys_only))


@kv.command()
@_key_argument
@click.argument("value", required=False)
@click.option("--lease", type=_LEASE, default=0, help="The key ends with this lease.")
@click.option("--prev-kv", is_flag=True, help="Print what the key had before.")
@click.pass_obj
def put(output: _Output, key: str, value: str | None, lease: int, prev_kv: bool) -> None:
    """Set KEY to VALUE, or to what stdin has."""
    data = sys.stdin.buffer.read() if value is None else os.fsencode(value)
    response = output.client.post("/v3/kv/put", PutRequest(os.fsencode(key), data, lease, prev_kv), PutResponse)
    previous = [] if response.prev_kv is None else [response.prev_kv]
    output.write(response, b"OK", *_lines(previous))


@kv.command("del")
@_key_argument
@_end_argument
@_prefix_option
@_from_key_option
@click.option("--prev-kv", is_flag=True, help="Print what was deleted.")
@click.pass_obj
def delete(output: _Output, key: str, range_end: str | None, prefix: bool, from_key: bool, prev_kv: bool) -> None:
    """Delete keys.

    Deletes KEY, or the keys from KEY to RANGE_END (exclusive), and prints how many there were.
    """
    request = DeleteRangeRequest(*_range(key, range_end, prefix, from_key), prev_kv)
    response = output.client.post("/v3/kv/deleterange", request, DeleteRangeResponse)
    output.write(response, b"%d" % response.deleted, *_lines(response.prev_kvs))


@kv.command()
@_key_argument
@_end_argument
@_prefix_option
@_from_key_option
@click.option("--rev", type=WholeNumber(0, MAX_INT64), default=0, help="Begin with this revision.")
@click.option("--prev-kv", is_flag=True, help="Print what the key had before, too.")
@click.pass_obj
def watch(
    output: _Output, key: str, range_end: str | None, prefix: bool, from_key: bool, rev: int, prev_kv: bool
) -> None:
    """Print the changes of keys, until interrupted.

    Watches KEY, or the keys from KEY to RANGE_END (exclusive).
    """
    create = WatchCreateRequest(*_range(key, range_end, prefix, from_key), rev, prev_kv=prev_kv)
    for response in output.client.stream("/v3/watch", WatchRequest(create), WatchResponse):
        if response.canceled:
            reason = response.cancel_reason or f"revision {rev} has been compacted ({response.compact_revision})"
            raise click.ClickException(f"the watch was cancelled: {reason}")
        for event in response.events:
            assert event.kv is not None
            shown = ([] if event.prev_kv is None else [event.prev_kv]) + [event.kv]
            output.write(event, EventType(event.type).name.encode(), *_lines(shown))


@kv.command()
@click.pass_obj
def txn(output: _Output) -> None:
    """Execute a transaction from stdin.

    It has three parts, with an empty line after each: comparisons, commands if all of them hold, and commands if not.

    \b
    mod("key1") > "0"
    value("key1") = "text"

    \b
    put key1 "another text"
    get key1

    \b
    get key1
    """
    response = output.client.post("/v3/kv/txn", parse_txn(sys.stdin.read()), TxnResponse)
    lines = [line for operation in response.responses for line in _answer_lines(operation)]
    output.write(response, b"SUCCESS" if response.succeeded else b"FAILURE", *lines)


@kv.group()
def lease() -> None:
    """Grant, renew and end leases.  Their ids are hexadecimal."""


@lease.command()
@click.argument("ttl", type=WholeNumber(1, MAX_INT64))
@click.pass_obj
def grant(output: _Output, ttl: int) -> None:
    """Make a lease that lasts TTL seconds unless it is renewed."""
    response = output.client.post("/v3/lease/grant", LeaseGrantRequest(ttl), LeaseGrantResponse)
    output.write(response, b"lease %x granted with TTL(%ds)" % (response.id, response.ttl))


@lease.command()
@click.argument("lease_id", metavar="ID", type=_LEASE)
@click.pass_obj
def revoke(output: _Output, lease_id: int) -> None:
    """End a lease, and delete its keys."""
    response = output.client.post("/v3/lease/revoke", LeaseRevokeRequest(lease_id), LeaseRevokeResponse)
    output.write(response, b"lease %s revoked" % _hexadecimal(lease_id))


@lease.command("keep-alive")
@click.argument("lease_id", metavar="ID", type=_LEASE)
@click.option("--once", is_flag=True, help="Renew it once.")
@click.pass_obj
def keep_alive(output: _Output, lease_id: int, once: bool) -> None:
    """Renew a lease three times per TTL, until interrupted."""
    while True:
        request = LeaseKeepAliveRequest(lease_id)
        [response] = output.client.stream("/v3/lease/keepalive", request, LeaseKeepAliveResponse)
        name = _hexadecimal(lease_id)
        if not response.ttl:
            raise click.ClickException(f"lease {name.decode()} expired or revoked")
        output.write(response, b"lease %s keepalived with TTL(%d)" % (name, response.ttl))
        if once:
            return
        time.sleep(response.ttl / 3)


@lease.command()
@click.argument("lease_id", metavar="ID", type=_LEASE)
@click.option("--keys", is_flag=True, help="Print its keys, too.")
@click.pass_obj
def timetolive(output: _Output, lease_id: int, keys: bool) -> None:
    """Print how long a lease lasts."""
    request = LeaseTimeToLiveRequest(lease_id, keys)
    response = output.client.post("/v3/lease/timetolive", request, LeaseTimeToLiveResponse)
    name = _hexadecimal(lease_id)
    if response.ttl < 0:
        output.write(response, b"lease %s already expired" % name)
    else:
        text = b"lease %s granted with TTL(%ds), remaining(%ds)" % (name, response.granted_ttl, response.ttl)
        output.write(response, text, *response.keys)


@lease.command("list")
@click.pass_obj
def list_leases(output: _Output) -> None:
    """Print the ids of all leases."""
    response = output.client.post("/v3/lease/leases", LeaseTimeToLiveRequest(), LeaseLeasesResponse)
    output.write(response, *(_hexadecimal(one.id) for one in response.leases))


@kv.command()
@click.argument("revision", type=WholeNumber(1, MAX_INT64))
@click.pass_obj
def compaction(output: _Output, revision: int) -> None:
    """Forget what was overwritten or deleted before REVISION."""
    response = output.client.post("/v3/kv/compaction", CompactionRequest(revision), CompactionResponse)
    output.write(response, b"compacted revision %d" % revision)


@kv.command()
@click.pass_obj
def status(output: _Output) -> None:
    """Print the size of the store and its quota.

    The node that answers tells its own, and then what is wrong with it.
    """
    from kraft_trio.kv.gateway.cluster import Empty, StatusResponse

    response = output.client.post("/v3/maintenance/status", Empty(), StatusResponse)
    quota = f"{response.db_size_quota} bytes" if response.db_size_quota else "none"
    lines = [f"size {response.db_size} bytes, quota {quota}", *response.errors]
    output.write(response, *(line.encode() for line in lines))


@kv.group()
def alarm() -> None:
    """List and disarm alarms.  NOSPACE: the store has reached its quota, and takes no more keys."""


@alarm.command("list")
@click.pass_obj
def list_alarms(output: _Output) -> None:
    """Print the alarms."""
    _print_alarms(output, AlarmRequest())


@alarm.command()
@click.pass_obj
def disarm(output: _Output) -> None:
    """Let the store take keys again.  Delete keys or compact it before."""
    _print_alarms(output, AlarmRequest(AlarmAction.DEACTIVATE, alarm=AlarmType.NOSPACE))


def _print_alarms(output: _Output, request: AlarmRequest) -> None:
    response = output.client.post("/v3/maintenance/alarm", request, AlarmResponse)
    output.write(response, *(b"alarm:" + one.alarm.name.encode() for one in response.alarms))


def _range(key: str, range_end: str | None, prefix: bool, from_key: bool) -> tuple[bytes, bytes]:
    if (range_end is not None) + prefix + from_key > 1:
        raise click.UsageError("only one of RANGE_END, --prefix and --from-key can be given")
    start = os.fsencode(key)
    if prefix:
        return start or b"\0", prefix_end(start)
    return start or b"\0", TO_THE_END if from_key else os.fsencode(range_end or "")


def _lines(kvs: Sequence[KeyValue], *, keys_only: bool = False) -> list[bytes]:
    return [part for found in kvs for part in ((found.key,) if keys_only else (found.key, found.value))]


def _answer_lines(operation: ResponseOp) -> list[bytes]:
    if operation.response_range is not None:
        return _lines(operation.response_range.kvs)
    if operation.response_delete_range is not None:
        return [b"%d" % operation.response_delete_range.deleted]
    return [b"OK"]


def _hexadecimal(lease_id: int) -> bytes:
    return b"%x" % (lease_id & 2**64 - 1)
