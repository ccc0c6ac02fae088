"""``recovery reconcile`` and ``recovery undrain``: Advice carried out, or shown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from attribution.model import Advice
    from attribution.policy.optin import OptIn
    from attribution.reconcile import Ledger, Limits, Round
    from attribution.reconcile.tick import Approve
    from attribution.schedulers.base import World

StoreOption = Annotated[
    Path | None,
    typer.Option("--store", help="Folder of the store.  [default: recovery-store]", envvar="RECOVERY_STORE"),
]


def reconcile(
    store: StoreOption = None,
    mode: Annotated[str, typer.Option("--mode", help="observe records what act would do; act does it.")] = "observe",
    once: Annotated[bool, typer.Option("--once", help="One round, then exit.")] = False,
    advice: Annotated[
        list[Path] | None,
        typer.Option("--advice", help="JSON lines of Advice instead of the store's; may be given again."),
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", "-p", help="Partition that may be acted on; act mode wants one.")
    ] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Ask on the terminal before every step.")] = False,
    approve_within: Annotated[
        float, typer.Option("--approve-within", min=1, help="Seconds to wait for an answer.")
    ] = 300.0,
    kill_switch: Annotated[
        Path | None,
        typer.Option("--kill-switch", help="While this file exists nothing is done.  [default: STORE/STOP]"),
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", min=2, help="Seconds between looks while nothing happens.")
    ] = 10.0,
    any_job: Annotated[
        bool, typer.Option("--any-job", help="Act on jobs that did not opt in by their comment as well.")
    ] = False,
    allow_drain: Annotated[bool, typer.Option("--allow-drain", help="Drain nodes on trusted evidence.")] = False,
    mark: Annotated[
        bool, typer.Option("--mark/--no-mark", help="Put the Advice id into the job's AdminComment.")
    ] = True,
    max_stops: Annotated[int, typer.Option("--max-stops", min=0, help="Requeues and cancels per hour.")] = 60,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Cluster name where Slurm does not tell it.")] = None,
    slurm_bin: Annotated[str, typer.Option("--slurm-bin", help="Folder of Slurm's programs.  [default: PATH]")] = "",
    rest: Annotated[
        str | None,
        typer.Option("--rest", help="Read from slurmrestd: http://host:port or unix:/path; token in SLURM_JWT."),
    ] = None,
    metrics: Annotated[
        Path | None, typer.Option("--metrics", help="Write Prometheus text here after each round.")
    ] = None,
    format_: Annotated[str, typer.Option("--format", "-f", help="rich or jsonl.")] = "rich",
) -> None:
    """Make Slurm do what the Advice asks for, one safe step at a time. Observes only, unless told to act."""
    from attribution.reconcile import Limits, Mode

    _check(mode, partition)
    limits = Limits(
        partitions=frozenset(partition) if partition else None,
        require_opt_in=not any_job,
        allow_drain=allow_drain,
        mark=mark,
        max_stops_per_hour=max_stops,
    )
    folder = store or Path("recovery-store")
    _run(
        folder=folder,
        act=mode == Mode.ACT,
        limits=limits,
        load=_loader(folder, tuple(advice or ())),
        kill_switch=kill_switch or folder / "STOP",
        ask=_ask(approve_within) if approve else None,
        interval_s=interval,
        once=once,
        cluster=cluster,
        slurm_bin=slurm_bin,
        rest=rest,
        metrics_file=metrics,
        show=_show_json if format_ == "jsonl" else _show_text,
    )


def _check(mode: str, partitions: list[str] | None) -> None:
    """Act mode is asked for in full, or not at all."""
    if mode not in ("observe", "act"):
        raise typer.BadParameter("use observe or act", param_hint="--mode")
    if mode == "act" and not partitions:
        raise typer.BadParameter("act mode wants the partitions that it may touch", param_hint="--partition")


def _run(
    *,
    folder: Path,
    act: bool,
    limits: Limits,
    load: Callable[[World, Ledger], Sequence[Advice]],
    kill_switch: Path,
    ask: Approve | None,
    interval_s: float,
    once: bool,
    cluster: str | None,
    slurm_bin: str,
    rest: str | None,
    metrics_file: Path | None,
    show: Callable[[Round], None],
) -> None:
    import signal
    import time

    from attribution.reconcile import Ledger, Reconciler
    from attribution.reconcile.loop import Loop, metrics
    from attribution.schedulers.rest import RestReader
    from attribution.schedulers.runner import CommandRunner, ReadRunner
    from attribution.schedulers.slurm import SlurmActor, SlurmObserver, commands_of

    runner = ReadRunner(bin_dir=slurm_bin)
    reader = RestReader(url=rest) if rest else None
    observer = SlurmObserver(runner=runner, rest=reader, opt_in=_opt_in(), cluster=cluster)
    # observe mode makes no actor: there is nothing in the process that could act
    actor = SlurmActor(runner=CommandRunner(bin_dir=slurm_bin, calls=runner.calls)) if act else None
    stopping: list[int] = []

    def nap(seconds: float) -> None:
        """Sleep, and wake up soon after a signal."""
        end = time.monotonic() + seconds
        while not stopping and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, frame: stopping.append(received))
    with Ledger(folder / "ledger") as ledger:
        reconciler = Reconciler(
            observer=observer,
            ledger=ledger,
            limits=limits,
            actor=actor,
            commands=commands_of,
            approve=ask,
            kill_switch=kill_switch,
        )

        def report(seen: Round) -> None:
            show(seen)
            if metrics_file is not None:
                part = metrics_file.with_name(metrics_file.name + ".part")
                part.write_text(metrics(loop, runner.calls, seen))
                part.rename(metrics_file)

        loop = Loop(
            reconciler=reconciler,
            load=lambda world: load(world, ledger),
            report=report,
            interval_s=interval_s,
            stop=lambda: once or bool(stopping),
            sleep=nap,
        )
        loop.run()


def _opt_in() -> Callable[[str], OptIn]:
    from attribution.policy.optin import parse_comment

    return parse_comment


def _loader(folder: Path, files: tuple[Path, ...]) -> Callable[[World, Ledger], Sequence[Advice]]:
    """Advice of the files given, or of the store; submit times completed from what Slurm shows."""
    import orjson

    from attribution.model import PolicyError
    from attribution.reconcile.documents import advice_of, complete

    def from_files() -> list[tuple[Advice, tuple[str, ...]]]:
        found = []
        for path in files:
            for number, line in enumerate(path.read_bytes().splitlines(), 1):
                if not line.strip():
                    continue
                try:
                    row = orjson.loads(line)
                    found.append((advice_of(row.get("advice", row)), tuple(row.get("files", ()))))
                except (orjson.JSONDecodeError, AttributeError, PolicyError) as error:
                    raise PolicyError(str(error), where=f"{path}:{number}") from error
        return found

    def load(world: World, ledger: Ledger) -> Sequence[Advice]:
        rows = from_files() if files else _from_store(folder)
        return [complete(one, logs, world, ledger.about(one.id)) for one, logs in rows]

    return load


#: Older Advice is history: it was settled, or it expired.
_OPEN_S = 7 * 86_400
_QUERY = """
select a.attempt_id, a.document, t.files, d.status
from advice a
left join attempts t using (attempt_id, run_id)
left join diagnoses d using (attempt_id, run_id)
where a.action <> 'none' and coalesce(a.issued_at_s, 0) > ?
order by a.attempt_id, a.generation
"""


def _from_store(folder: Path) -> list[tuple[Advice, tuple[str, ...]]]:
    import time

    import orjson

    from attribution.reconcile.documents import advice_of
    from attribution.store import Store

    rows = Store(folder).sql(_QUERY, [time.time() - _OPEN_S]).iter_rows(named=True)
    found = []
    for row in rows:
        document = {"attempt": row["attempt_id"], "status": row["status"] or "unknown", **orjson.loads(row["document"])}
        found.append((advice_of(document), tuple(row["files"] or ())))
    return found


def _ask(within_s: float) -> Approve:
    """Ask on the terminal; no answer in time is no approval."""
    import select
    import sys

    from attribution.schedulers.base import Step

    def ask(step: Step, commands: tuple[tuple[str, ...], ...]) -> bool | None:
        typer.echo(f"\n{step.advice_id}: {step.kind}", err=True)
        for args in commands:
            typer.echo("  " + " ".join(args), err=True)
        typer.echo(f"do it? [y/N] ({within_s:.0f} s) ", err=True, nl=False)
        ready, _, _ = select.select([sys.stdin], [], [], within_s)
        if not ready:
            typer.echo("no answer", err=True)
            return None
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    return ask


def _show_text(seen: Round) -> None:
    for problem in seen.world.problems:
        typer.echo(f"cannot see everything: {problem}", err=True)
    for done in seen.steps:
        answer = f"{done.reply.kind} {done.reply.text}".strip() if done.reply else "would"
        typer.echo(f"{done.step.advice_id}  {done.step.kind}  {answer}")
        for args in done.commands:
            typer.echo("    " + " ".join(args))
    for verdict in seen.verdicts:
        typer.echo(f"{verdict.advice_id}  {verdict.disposition}  {verdict.reason}  {verdict.detail}".rstrip())


def _show_json(seen: Round) -> None:
    import orjson

    from attribution.model import to_plain

    for done in seen.steps:
        row = {"step": str(done.step.kind), "advice": done.step.advice_id, "commands": to_plain(done.commands)}
        typer.echo(orjson.dumps({**row, "reply": to_plain(done.reply)}).decode())
    for verdict in seen.verdicts:
        typer.echo(orjson.dumps(to_plain(verdict)).decode())


def undrain(
    nodes: Annotated[list[str], typer.Argument(help="Nodes that Recovery drained.", metavar="NODE...")],
    store: StoreOption = None,
    slurm_bin: Annotated[str, typer.Option("--slurm-bin", help="Folder of Slurm's programs.  [default: PATH]")] = "",
) -> None:
    """Take back drains that Recovery made. A drain with anybody else's reason is left alone."""
    from attribution.reconcile import Ledger
    from attribution.reconcile.undrain import undrain as take_back
    from attribution.schedulers.runner import CommandRunner
    from attribution.schedulers.slurm import SlurmActor, SlurmObserver

    runner = CommandRunner(bin_dir=slurm_bin)
    observer, actor = SlurmObserver(runner=runner), SlurmActor(runner=runner)
    left = 0
    with Ledger((store or Path("recovery-store")) / "ledger") as ledger:
        for name in nodes:
            done, why = take_back(name, observer, actor, ledger)
            typer.echo(f"{name}: {why}", err=not done)
            left += not done
    if left:
        raise typer.Exit(1)
