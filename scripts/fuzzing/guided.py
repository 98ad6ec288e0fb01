"""Lets atheris choose the inputs of one decoder, by the code that they reach: `python -m scripts.fuzzing.guided NAME`.

atheris is not among the development tools, because it has no wheels for all versions of Python.  Its libFuzzer ends the
process at the first finding, which it writes to the current directory.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import warnings
from itertools import count
from pathlib import Path

import click


@click.command()
@click.argument("name")
@click.option("--seconds", type=click.IntRange(min=1), default=60)
@click.option("--corpus", type=click.Path(path_type=Path), help="A directory that keeps the inputs for the next run.")
def main(name: str, seconds: int, corpus: Path | None) -> None:
    import atheris

    with atheris.instrument_imports(include=["kraft_trio"]):
        from scripts.fuzzing.decoders import DECODERS
    from scripts.fuzzing.campaign import ADDRESS_SPACE_BYTES, HANG_S
    from scripts.fuzzing.decoder import try_out
    from scripts.fuzzing.mutation import MAX_BYTES

    logging.disable()
    warnings.simplefilter("ignore")
    decoder = DECODERS[name]

    numbers = count()

    def one(data: bytes) -> None:
        changed = bytearray(data)
        if decoder.repair is not None:
            decoder.repair(changed)
        try_out(decoder, next(numbers), bytes(changed))

    with tempfile.TemporaryDirectory() as directory:
        tempfile.tempdir = directory
        inputs = corpus or Path(directory, "corpus")
        inputs.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(decoder.seeds()):
            Path(inputs, str(number)).write_bytes(seed)
        if child := os.fork():  # libFuzzer ends its process without returning
            _, status = os.waitpid(child, 0)
        else:
            limits = (f"-max_len={MAX_BYTES}", f"-timeout={HANG_S}", f"-rss_limit_mb={ADDRESS_SPACE_BYTES >> 20}")
            options = (f"-max_total_time={seconds}", "-verbosity=0", "-print_final_stats=1", *limits)
            atheris.Setup([sys.argv[0], str(inputs), *options], one)
            atheris.Fuzz()
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
