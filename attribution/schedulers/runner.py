"""Starts Slurm's client programs: no shell, argument lists, a time limit, bounded output, every call counted.

`ReadRunner` knows only questions. `CommandRunner` adds commands; nobody makes one in observe mode.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from attribution.model import SchedulerError

#: Questions that can change nothing, by program and first argument.
_QUESTIONS: dict[str, frozenset[str] | None] = {
    "squeue": None,
    "sinfo": None,
    "sacct": None,
    "scontrol": frozenset({"show", "ping", "--json"}),
}
_COMMANDS: dict[str, frozenset[str] | None] = {
    "scontrol": frozenset({"requeuehold", "update", "release"}),
    "scancel": None,
}
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a program ended. `returncode` is None when it was stopped at the time or output limit."""

    returncode: int | None
    stdout: bytes
    stderr: str
    seconds: float
    cut: bool = False


def _allowed(args: tuple[str, ...], verbs: dict[str, frozenset[str] | None]) -> bool:
    if not args or args[0] not in verbs:
        return False
    firsts = verbs[args[0]]
    return firsts is None or (len(args) > 1 and args[1] in firsts)


@dataclass(slots=True, kw_only=True)
class ReadRunner:
    """Asks Slurm. `calls` counts programs started, by name; `bin_dir` is where they lie ("" for PATH)."""

    bin_dir: str = ""
    time_limit_s: float = 30.0
    max_output_bytes: int = 512 << 20
    env: Mapping[str, str] | None = None
    clock: Callable[[], float] = time.monotonic
    calls: Counter[str] = field(default_factory=Counter)

    def query(self, *args: str) -> Answer:
        """Run one question. Raises SchedulerError for anything that is not one, or a missing program."""
        if not _allowed(args, _QUESTIONS) or (args[:2] == ("scontrol", "--json") and args[2:3] != ("show",)):
            raise SchedulerError(f"{' '.join(args[:2])} is not a question")
        return self._run(args)

    def _run(self, args: tuple[str, ...]) -> Answer:
        self.calls[args[0]] += 1
        program = os.path.join(self.bin_dir, args[0]) if self.bin_dir else args[0]  # noqa: PTH118
        env = dict(os.environ if self.env is None else self.env)
        # epoch seconds, C locale: local times without a zone cannot be compared
        env.update({"SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"})
        started = self.clock()
        try:
            process = subprocess.Popen(
                (program, *args[1:]),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            raise SchedulerError(f"cannot start {program}: {error.strerror}", mend="install Slurm's clients") from error
        out, err, cut = self._drain(process, started)
        return Answer(
            returncode=None if cut else process.returncode,
            stdout=out,
            stderr=printable(err.decode("utf-8", "replace")),
            seconds=self.clock() - started,
            cut=cut,
        )

    def _drain(self, process: subprocess.Popen[bytes], started: float) -> tuple[bytes, bytes, bool]:
        assert process.stdout is not None and process.stderr is not None
        parts: dict[str, list[bytes]] = {"out": [], "err": []}
        size, cut = 0, False
        with process, selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, "out")
            selector.register(process.stderr, selectors.EVENT_READ, "err")
            while selector.get_map() and not cut:
                left = self.time_limit_s - (self.clock() - started)
                for key, _ in selector.select(max(left, 0)):
                    data = os.read(key.fd, _CHUNK_BYTES)
                    size += len(data)
                    if data:
                        parts[key.data].append(data)
                    else:
                        selector.unregister(key.fileobj)
                cut = left <= 0 or size > self.max_output_bytes
            if not cut:
                try:
                    process.wait(max(self.time_limit_s - (self.clock() - started), 0.05))
                except subprocess.TimeoutExpired:
                    cut = True
            if cut:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return b"".join(parts["out"]), b"".join(parts["err"]), cut


@dataclass(slots=True, kw_only=True)
class CommandRunner(ReadRunner):
    """Also gives commands. Made only in act mode."""

    def command(self, *args: str) -> Answer:
        """Run one command. Raises SchedulerError for anything that is not one of the few we may give."""
        if not _allowed(args, _COMMANDS):
            raise SchedulerError(f"{' '.join(args[:2])} is not one of our commands")
        return self._run(args)


def printable(text: str, limit: int = 500) -> str:
    """One bounded line without control codes: what others wrote must not write on our terminal or into our ledger."""
    flat = "".join(char if char.isprintable() else " " for char in text[: 4 * limit])
    flat = " ".join(flat.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
