"""Decodes the headers of many records at once."""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kraft_trio.spark.decoding.headers import Ints
from kraft_trio.spark.decoding.rows import binaries
from kraft_trio.spark.decoding.varints import Bytes, read_varints
from kraft_trio.spark.schemas import HEADERS

MOST_HEADERS = 64
"""Limit for one record; more headers are unusual."""


@attrs.frozen
class HeaderFields:
    """One row per header, in the order of the records.  Positions are in the data; ends are exclusive."""

    record: Ints
    """The index of its record."""
    name_start: Ints
    name_end: Ints
    value_start: Ints
    value_end: Ints
    is_value_null: npt.NDArray[np.bool_]

    @classmethod
    def none(cls) -> HeaderFields:
        nowhere = np.empty(0, np.int64)
        return cls(nowhere, nowhere, nowhere, nowhere, nowhere, np.empty(0, bool))

    def select(self, wanted: Ints) -> HeaderFields:
        """The headers of the records at these places (ascending), with new indices."""
        kept = np.flatnonzero(np.isin(self.record, wanted))
        return HeaderFields(
            np.searchsorted(wanted, self.record[kept]),
            self.name_start[kept],
            self.name_end[kept],
            self.value_start[kept],
            self.value_end[kept],
            self.is_value_null[kept],
        )

    def column(self, data: bytes, record_count: int) -> pa.Array:
        """The column `headers` for this many records."""
        counts = np.bincount(self.record, minlength=record_count)
        bounds = np.zeros(record_count + 1, np.int32)
        np.cumsum(counts, out=bounds[1:])
        is_name_null = np.zeros(len(self.record), bool)
        names = binaries(data, self.name_start, self.name_end, is_name_null).cast(pa.string())
        values = binaries(data, self.value_start, self.value_end, self.is_value_null)
        pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
        return pa.ListArray.from_arrays(pa.array(bounds), pairs, type=HEADERS)


def read_headers(
    data: bytes, view: Bytes, records: Ints, counts: Ints, positions: Ints, ends: Ints
) -> tuple[HeaderFields, Ints]:
    """Return the headers of these records, and the records with unusual or wrong headers.

    For every record, `counts` has the number of headers, `positions` their start, and `ends` the end of the record.
    """
    is_wrong = np.zeros(len(counts), bool)
    is_wrong[records] = counts[records] > np.minimum(MOST_HEADERS, (ends - positions)[records] // 2)
    current = records[~is_wrong[records]]
    at = positions.copy()
    rounds = []
    for number in range(MOST_HEADERS):
        current = current[counts[current] > number]
        if not len(current):
            break
        name_length, name_start, too_long = read_varints(view, at[current])
        is_bad = np.zeros(len(current), bool)
        is_bad[too_long] = True
        is_bad |= (name_length < 0) | (name_length > ends[current] - name_start)
        name_end = name_start + np.maximum(name_length, 0)
        value_length, value_start, too_long = read_varints(view, name_end)
        is_bad[too_long] = True
        is_bad |= (value_length < -1) | (value_length > ends[current] - value_start)
        value_end = value_start + np.maximum(value_length, 0)
        is_wrong[current[is_bad]] = True
        good = ~is_bad
        at[current] = value_end
        arrays = (current, name_start, name_end, value_start, value_end, value_length < 0)
        rounds.append([array[good] for array in arrays])
        current = current[good]
    is_wrong[records] |= at[records] != ends[records]
    headers = HeaderFields.none()
    if rounds:
        columns = [np.concatenate([arrays[column] for arrays in rounds]) for column in range(6)]
        kept = ~is_wrong[columns[0]]
        order = np.argsort(columns[0][kept], kind="stable")
        headers = HeaderFields(*(column[kept][order] for column in columns))
    if not _are_names_text(data, headers):
        is_wrong[records] = True
    return headers, np.flatnonzero(is_wrong)


def _are_names_text(data: bytes, headers: HeaderFields) -> bool:
    """Whether all names are valid UTF-8."""
    names = binaries(data, headers.name_start, headers.name_end, np.zeros(len(headers.record), bool))
    try:
        names.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True
