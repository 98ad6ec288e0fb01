"""No password and no key of a metadata record is shown, whatever state the record is in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kraft_trio.metadata.columns import HIDDEN, is_secret_config
from kraft_trio.metadata.history import History, Origin, Problem
from kraft_trio.wire import metadata_schemas as schemas
from tests.support.metadata_histories import framed

PASSWORD = "barracuda"
SCRAM = schemas.UserScramCredentialRecord("web", 1, PASSWORD.encode(), PASSWORD.encode(), PASSWORD.encode(), 4096)


def config(value: str = PASSWORD, name: str = "ssl.key.password") -> schemas.ConfigRecord:
    return schemas.ConfigRecord(4, "1", name, value)


def damaged(value: bytes) -> list[bytes]:
    """Forms of a record that cannot be decoded: cut, longer, of an unknown version, with text that is none."""
    later = bytes([*value[:2], 9, *value[3:]])
    return [value[:-2], value + b"x", later, value.replace(b"web", b"\xffeb")]


DAMAGED = [one for record in (config(), SCRAM) for one in damaged(framed(record)) if one != framed(record)]
DAMAGED.append(framed(config()).replace(b"cuda", b"c\xffda"))


@pytest.mark.parametrize("value", DAMAGED)
def test_a_record_that_cannot_be_decoded_is_not_quoted(value: bytes) -> None:
    [problem] = History().add(Origin(5, 1, None), value)
    assert isinstance(problem, Problem)
    assert "barra" not in problem.reason
    assert "does not follow its schema" in problem.reason


def test_records_that_cannot_be_decoded_have_no_bytes_in_a_table(tmp_path: Path) -> None:
    from tests.spark.directories import make_node
    from tests.spark.test_metadata import load
    from tests.support.metadata_logs import log_of

    rows = load(make_node(tmp_path, 1, (0, log_of([*DAMAGED, framed(config()), framed(SCRAM)]))), "metadata")
    assert len(rows) == len(DAMAGED) + 2
    assert "barra" not in json.dumps(rows, default=repr)
    assert [row["message"] for row in rows] == [None] * len(rows)


# `kafka-configs --describe` shows none of these: their type in Kafka 4.4 is PASSWORD, or in earlier versions.
KAFKAS = (
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "delegation.token.secret.key",
    "delegation.token.master.key",
    "password.encoder.secret",
    "password.encoder.old.secret",
)


@pytest.mark.parametrize("name", KAFKAS)
def test_configurations_of_type_password_are_hidden(name: str) -> None:
    for spelled in (name, f"listener.name.internal.{name}", f"listener.name.internal.scram-sha-256.{name}"):
        [made] = History().add(Origin(1, 1, None), framed(config(name=spelled)))
        assert value_of(made) == HIDDEN


@pytest.mark.parametrize("name", ["my.plugin.Token", "vault.apiKey", "s3.access_key", "db.Password", "credentials"])
def test_what_a_plugin_may_call_a_password_is_hidden(name: str) -> None:
    assert is_secret_config(name)


@pytest.mark.parametrize(
    "name",
    [
        "retention.ms",
        "ssl.keystore.location",
        "delegation.token.max.lifetime.ms",
        "sasl.oauthbearer.token.endpoint.url",
        "log.cleaner.threads",
        "password.encoder.iterations",
    ],
)
def test_other_configurations_are_shown(name: str) -> None:
    assert not is_secret_config(name)


def value_of(made: Any) -> Any:
    from kraft_trio.spark.metadata.changes import rows_of

    [row] = rows_of(made)
    assert row.after is not None
    return row.after["value"]
