"""One conclusion about a quorum, and the words and commands of all of them."""

from __future__ import annotations

import enum
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import attrs

from kraft_trio.diagnosis.quorum_situation import Situation
from kraft_trio.protocol.types import NO_DIRECTORY_ID

START: Final = "kraft server start -c FILE"
START_KAFKA: Final = "bin/kafka-server-start.sh FILE"
RECOVER: Final = "Only if their disks are lost for good, recover one replica (`kraft storage recover`)."


class Severity(enum.Enum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    CRITICAL = "critical"


@attrs.frozen
class Finding:
    """One conclusion, with the command to copy if there is one."""

    severity: Severity
    code: str
    text: str
    command: str | None = None


def quorum_command(situation: Situation, subcommand: str) -> str:
    """A command of `kraft metadata-quorum` to copy, which asks the nodes that answer."""
    connecting = (
        "" if situation.command_config is None else f"--command-config {shlex.quote(situation.command_config)} "
    )
    asked = ",".join(claim.endpoint for claim in situation.answers)
    return f"kraft metadata-quorum --bootstrap-controller {asked} {connecting}{subcommand}"


def recover_text(situation: Situation) -> str:
    """What is left if the disks of the others are lost for good: on this machine, as a command."""
    here = situation.here
    known = () if here is None else [key.id for key in here.voter_keys if key.directory_id != NO_DIRECTORY_ID]
    if here is None or here.node_id not in known:
        return RECOVER  # Static voters are changed in the files.
    command = f"kraft storage recover -c {shlex.quote(here.file)} --unsafe-only-voter"
    stop = "" if here.is_down else f"stop node {here.node_id}, and "
    return (
        f"Only if their disks are lost for good: {stop}see with `{command}` what is lost then; it changes nothing. Of "
        "several that remain, the one with the newest log is recovered."
    )


def with_file(command: str, situation: Situation, node_id: int | None = None) -> str:
    """The command with the file of the node that is down on this machine, if it may be about that node."""
    here = situation.here
    if here is None or not here.is_down or node_id not in (None, here.node_id):
        return command
    return re.sub(r"(-c|kafka-server-start\.sh) FILE\b", lambda found: f"{found[1]} {shlex.quote(here.file)}", command)


def start_command(situation: Situation, node_id: int | None = None) -> str | None:
    """How to start a node that is down; None if its file, on this machine, shows that it would not start.

    `node_id` is which; None for any of several.

    It does not say what it is any more.  The first row that holds decides:

    | what tells what it is                                           | command                 |
    |-----------------------------------------------------------------|-------------------------|
    | its file and directory, on this machine                         | Kafka's or ours         |
    | its registration with Kafka's controllers, as the metadata says | Kafka's or ours         |
    | file and directory of another node that is no witness           | of the same program     |
    | nodes of Kafka's answer, or witnesses alone                     | Kafka's first, and ours |
    | nodes of ours answer, neither Kafka's nor witnesses alone       | ours                    |
    | none of these                                                   | ours first, and Kafka's |
    """
    if any(claim.directory_problem is not None for claim in situation.claims):
        return None
    here, cluster = situation.here, situation.cluster
    which = here.node_id if node_id is None and here is not None and here.is_down else node_id
    own = situation.claim_of(which) if which is not None else None
    is_kafkas = None if own is None else False if own.is_witness else own.is_kafkas
    if is_kafkas is None and cluster is not None and which in cluster.controllers | cluster.witnesses:
        is_kafkas = which in cluster.controllers
    found_here = [claim.is_kafkas for claim in situation.claims if claim.is_kafkas is not None]
    if is_kafkas is None and found_here:
        is_kafkas = any(found_here)
    if is_kafkas is not None:
        return with_file(START_KAFKA if is_kafkas else START, situation, node_id)
    has_kafkas = any(claim.log_end is None and claim.denial is None for claim in situation.answers)
    ours = [claim for claim in situation.answers if claim.log_end is not None]
    if has_kafkas or (ours and all(claim.is_witness for claim in ours)):
        return with_file(f"{START_KAFKA}  # or, for a node of kraft-trio: {START}", situation, node_id)
    either = START if ours else f"{START}  # or, for a controller of Apache Kafka: {START_KAFKA}"
    return with_file(either, situation, node_id)


def format_text(situation: Situation, start: str | None, node_id: int) -> str:
    """How to format a blank disk of the node that is started by that command: with the tool of the same program."""
    cluster_id = next((claim.cluster_id for claim in situation.answers if claim.cluster_id), "CLUSTER_ID")
    arguments = with_file(f"format -t {cluster_id} -c FILE --no-initial-controllers", situation, node_id)
    ours, kafkas = f"`kraft storage {arguments}`", f"`bin/kafka-storage.sh {arguments}`"
    if start is not None and START_KAFKA.partition(" ")[0] in start:
        return f"{kafkas}, or for a node of kraft-trio {ours}" if "kraft server" in start else kafkas
    return ours


def room_text(free_bytes: int) -> str:
    """What a disk has left."""
    return f"{free_bytes / 1024**2:.0f} MiB" if free_bytes >= 10 * 1024**2 else f"{free_bytes // 1024} KiB"


def number_word(count: int) -> str:
    """In a word, where a digit might be read as an id."""
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[count] if 0 <= count < len(words) else str(count)


def ids_text(ids: Iterable[int | None]) -> str:
    return ", ".join(str(id) for id in sorted(id for id in ids if id is not None))


def listed(texts: Collection[str]) -> str:
    return ", ".join(texts)


def joined(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
