"""Kafka's own image and ours, after the same histories of metadata records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from kraft_trio.metadata.history import History, Made, Origin, Problem
from kraft_trio.wire import metadata_schemas as schemas
from tests.interop.kafka_images import replay_histories, things_of
from tests.interop.kafka_schemas import newest_version, schemas_in
from tests.support import sizes
from tests.support.metadata_histories import RandomHistory

RECORDS = 1000
HISTORIES = 1000 if sizes.IS_ALL or sizes.IS_INTEROP else 40

WITHOUT_CHANGES = {
    "NO_OP_RECORD",
    "ZK_MIGRATION_STATE_RECORD",
    "BEGIN_TRANSACTION_RECORD",
    "END_TRANSACTION_RECORD",
    "ABORT_TRANSACTION_RECORD",
}


def replayed_by_us(history: Sequence[bytes]) -> tuple[History, list[Made | Problem]]:
    ours = History()
    return ours, [one for at, value in enumerate(history) for one in ours.add(Origin(at, 1, None), value)]


def test_our_image_is_kafkas(tmp_path: Path, says: Callable[[str], None]) -> None:
    kafkas = schemas_in("kafka-metadata", "common/metadata/")
    versions = {schema["apiKey"]: newest_version(schema) for schema in kafkas}
    histories = [RandomHistory(seed, versions).framed(RECORDS) for seed in range(HISTORIES)]
    kinds: Counter[str] = Counter()
    refused = count = 0
    for seed, (history, theirs) in enumerate(zip(histories, replay_histories(tmp_path, histories), strict=True)):
        ours, results = replayed_by_us(history)
        assert [one.origin.offset for one in results if isinstance(one, Problem)] == theirs.refused, seed
        assert things_of(ours.image) == theirs.things, seed
        kinds.update(one.record for one in results if isinstance(one, Made))
        refused += len(theirs.refused)
        count += len(history)
    assert kinds.keys() == {schemas.SCHEMAS[key].type_name for key in versions} - WITHOUT_CHANGES
    assert refused > 0
    says(f"{HISTORIES} histories, {count} records, {refused} refused by both")
