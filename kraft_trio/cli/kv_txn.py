"""The transactions of `kraft kv txn`: comparisons, and two lists of commands, as etcdctl writes them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import Final

import click

from kraft_trio.kv.requests import (
    Compare,
    CompareResult,
    CompareTarget,
    DeleteRangeRequest,
    PutRequest,
    RangeRequest,
    RequestOp,
    TxnRequest,
)

_COMPARE: Final = re.compile(r'^(\w+)\(("?)(.+)\2\)\s*(!=|=|<|>)\s*("?)(.*)\5$')
_RESULTS: Final = {
    "=": CompareResult.EQUAL,
    "!=": CompareResult.NOT_EQUAL,
    "<": CompareResult.LESS,
    ">": CompareResult.GREATER,
}
_TARGETS: Final = {
    "ver": (CompareTarget.VERSION, "version"),
    "version": (CompareTarget.VERSION, "version"),
    "c": (CompareTarget.CREATE, "create_revision"),
    "create": (CompareTarget.CREATE, "create_revision"),
    "m": (CompareTarget.MOD, "mod_revision"),
    "mod": (CompareTarget.MOD, "mod_revision"),
    "val": (CompareTarget.VALUE, "value"),
    "value": (CompareTarget.VALUE, "value"),
    "lease": (CompareTarget.LEASE, "lease"),
}


def parse_txn(text: str) -> TxnRequest:
    """Read comparisons, an empty line, commands, an empty line, and the commands for the other case.

    Raises click.UsageError.
    """
    blocks: list[list[str]] = [[], [], []]
    index = 0
    for line in text.splitlines():
        if line.strip():
            blocks[index].append(line.strip())
        elif index < len(blocks) - 1:
            index += 1
    compares, success, failure = blocks
    return TxnRequest(tuple(map(_compare, compares)), tuple(map(_operation, success)), tuple(map(_operation, failure)))


def _compare(line: str) -> Compare:
    match = _COMPARE.match(line)
    if match is None or match[1] not in _TARGETS:
        raise click.UsageError(f'{line!r}: a comparison such as mod("key") > "0" or value("key") = "text" expected')
    target, field = _TARGETS[match[1]]
    value: bytes | int = os.fsencode(match[6])
    if target is not CompareTarget.VALUE:
        try:
            value = int(match[6], 16 if target is CompareTarget.LEASE else 10)
        except ValueError:
            raise click.UsageError(f"{line!r}: {match[6]!r} is not a number") from None
    return Compare(_RESULTS[match[4]], target, os.fsencode(match[3]), **{field: value})  # type: ignore[arg-type]


def _operation(line: str) -> RequestOp:
    try:
        command, *arguments = shlex.split(line)
    except ValueError as error:
        raise click.UsageError(f"{line!r}: {error}") from None
    made = _made(command, [os.fsencode(argument) for argument in arguments])
    if made is None:
        raise click.UsageError(f"{line!r}: put KEY VALUE, get KEY [END] or del KEY [END] expected")
    return made


def _made(command: str, arguments: Sequence[bytes]) -> RequestOp | None:
    if command == "put" and len(arguments) == 2:
        return RequestOp(request_put=PutRequest(arguments[0], arguments[1]))
    if command in ("get", "del") and len(arguments) in (1, 2):
        key, end = arguments[0], b"".join(arguments[1:])
        if command == "get":
            return RequestOp(request_range=RangeRequest(key, end))
        return RequestOp(request_delete_range=DeleteRangeRequest(key, end))
    return None
