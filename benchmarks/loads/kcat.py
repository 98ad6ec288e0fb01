"""Load the quorum with kcat, librdkafka without Python: `python -m benchmarks.loads.kcat BOOTSTRAP --seconds 10`.

acks=all, and the client's own batching.  kcat ends after the last acknowledgement.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time

import click

from benchmarks.kraft_client import TOPIC
from benchmarks.measurement import ProducerResult

FLUSH_SECONDS = 120
LINES_AT_ONCE = 1000
FAILED = b"% Delivery failed"


def load(bootstrap: str, value_bytes: int, seconds: float, idempotence: bool, linger_ms: int) -> ProducerResult:
    """Write lines to kcat for the time given, and wait until it has sent them.

    Raises click.ClickException if kcat fails.
    """
    settings = {
        "acks": "all",
        "linger.ms": linger_ms,
        "enable.idempotence": str(idempotence).lower(),
        "delivery.timeout.ms": FLUSH_SECONDS * 1000,
    }
    options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
    lines = (b"x" * value_bytes + b"\n") * LINES_AT_ONCE
    with tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        kcat = subprocess.Popen(
            ["kcat", "-P", "-b", bootstrap, "-t", TOPIC, "-p", "0", *options], stdin=subprocess.PIPE, stderr=errors
        )
        assert kcat.stdin is not None
        sent = 0
        code: int | str
        try:
            while not sent or time.perf_counter() < began + seconds:
                kcat.stdin.write(lines)
                sent += LINES_AT_ONCE
            kcat.stdin.close()
            code = kcat.wait(FLUSH_SECONDS)
        except (BrokenPipeError, subprocess.TimeoutExpired) as error:
            code = str(error)
        finally:
            kcat.kill()
            kcat.wait()
        taken = time.perf_counter() - began
        errors.seek(0)
        said = errors.read()
    failed = said.count(FAILED)
    if code != 0 and not failed:
        raise click.ClickException(f"kcat: {code}: {said[-2000:].decode(errors='replace')}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ProducerResult(
        client="kcat" + (", idempotent" if idempotence else ""),
        records=sent - failed,
        failed=failed,
        seconds=taken,
        client_cpu_us=(used.ru_utime + used.ru_stime) / max(sent - failed, 1) * 1e6,
    )


@click.command(help=__doc__)
@click.argument("bootstrap")
@click.option("--value-bytes", type=click.IntRange(0), default=1024, show_default=True)
@click.option("--seconds", type=float, default=10.0, show_default=True)
@click.option("--idempotence/--no-idempotence", default=False, show_default=True)
@click.option("--linger-ms", type=int, default=5, show_default=True)
def main(bootstrap: str, value_bytes: int, seconds: float, idempotence: bool, linger_ms: int) -> None:
    click.echo(load(bootstrap, value_bytes, seconds, idempotence, linger_ms).to_json())


if __name__ == "__main__":
    main()
