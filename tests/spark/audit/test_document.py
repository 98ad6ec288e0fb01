"""What docs/how-to/audit-with-spark.md shows of the audit is run as it stands there, and prints what it says."""

from __future__ import annotations

import re
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from kraft_trio.storage.batches.batch import iter_headers
from kraft_trio.storage.batches.batch_header import patch_crc
from tests.support.programs import REPOSITORY

from .conftest import PARTITION

PAGE = REPOSITORY / "docs" / "how-to" / "audit-with-spark.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("\n## Audit\n")[2]


def test_the_program_prints_what_it_says(backups: Path, tmp_path: Path) -> None:
    found = re.search(r"^```python\n(.*?)^```\n\n.*?^```\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
    assert found is not None
    program, output = found.groups()
    shutil.copytree(backups, tmp_path / "backups")
    change_a_value(tmp_path / "backups" / "node-3" / PARTITION / "00000000000000000011.log", offset=13)
    # The session of all tests works in another directory.
    assert '"backups/' in program
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(program.replace('"backups/', f'"{tmp_path}/backups/'), str(PAGE), "exec"), {})
    assert printed.getvalue().replace(f"{tmp_path}/", "") == output


def change_a_value(log: Path, offset: int) -> None:
    """One bit of the batch that begins at that offset, and its CRC, so that it is sound in itself."""
    content = log.read_bytes()
    [(position, size)] = [
        (position, header.size_in_bytes) for position, header in iter_headers(content) if header.base_offset == offset
    ]
    batch = bytearray(content[position : position + size])
    batch[-10] ^= 1
    patch_crc(batch)
    log.write_bytes(content[:position] + batch + content[position + size :])
