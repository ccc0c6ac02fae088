"""``recovery policy simulate | expect | lemons | receipt``: policies and nodes against the stored history."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attribution.cli.policy_common import (
    DEFAULT,
    Format,
    Overlays,
    StoreOption,
    load,
    print_json,
    store_frame,
    taxonomy,
)
from attribution.cli.policy_common import one_of as known

if TYPE_CHECKING:
    from attribution.policy.replay import PolicyReplay, Replay

_UNITS = {"h": 3600.0, "d": 86_400.0, "w": 604_800.0}
Since = Annotated[str | None, typer.Option("--since", help="Only attempts that ended within: 12h, 90d, 8w.")]


def span_s(text: str) -> float:
    """Seconds of ``90d``, ``12h`` or ``8w``."""
    found = re.fullmatch(r"(\d{1,6})([hdw])", text.strip(), re.ASCII)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no span of time: 12h, 90d and 8w are", param_hint="--since")
    return float(found[1]) * _UNITS[found[2]]


def _sizes(given: list[str] | None) -> dict[str, int]:
    out = {}
    for text in given or ():
        name, _, number = text.partition("=")
        if not name or not number.isdecimal():
            raise typer.BadParameter(f"{text!r} is no PARTITION=NODES", param_hint="--nodes")
        out[name] = int(number)
    return out


def _read(path: Path) -> bytes:
    from attribution.model import SourceError

    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror}", where=str(path)) from error


def simulate(
    policy: Annotated[Path, typer.Option("--policy", help="The new policy.")],
    against: Annotated[
        Path | None, typer.Option("--against", help="The policy to compare with.  [default: the shipped one]")
    ] = None,
    since: Since = None,
    store: StoreOption = DEFAULT,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--nodes", help="Size of a partition for caps in percent, as main=512; may be given again."),
    ] = None,
    sacct: Annotated[
        list[Path] | None,
        typer.Option("--sacct", help="Accounting export that tells what became of attempts without a stored log."),
    ] = None,
    rules: Overlays = None,
    format_: Format = "rich",
) -> None:
    """Replay a policy over the stored history: what it would have advised, and what really happened next."""
    import time

    from attribution.policy.accounted import with_accounting
    from attribution.policy.past import records
    from attribution.policy.replay import replay
    from attribution.sources.accounting import parse_accounting

    known(format_, "rich", "json")
    told = [r for path in sacct or () for r in parse_accounting(_read(path), name=str(path))]
    got = replay(
        with_accounting(records(store_frame(store)), told),
        load(policy),
        taxonomy=taxonomy(rules),
        old=load(against),
        since_s=time.time() - span_s(since) if since else None,
        partition_nodes=_sizes(nodes),
    )
    if format_ == "json":
        print_json(got)
    else:
        typer.echo("\n".join(_told(got)))


def _told(got: Replay) -> list[str]:
    lines = [f"{got.attempts} failed attempts, {got.judged} judged by what their successors show"]
    lines += ["  " + ", ".join(f"{name} {n}" for name, n in got.became)] if got.became else []
    for label, one in (("new", got.new), ("old", got.old)):
        if one is not None:
            lines += _policy(label, one)
    if got.old is None:
        return lines
    gain = (got.old.wasted_hours - got.new.wasted_hours) - (got.new.forgone_hours - got.old.forgone_hours)
    lines += ["", f"{got.changed} attempts differ; new against old: {gain:+,.1f} GPU-hours"]
    for d in got.differences:
        new = f"{d.new}{' without ' + ','.join(d.new_exclude) if d.new_exclude else ''} ({d.new_row})"
        old = f"{d.old}{' without ' + ','.join(d.old_exclude) if d.old_exclude else ''} ({d.old_row})"
        lines.append(
            f"  {d.attempt_id} {d.failure_class or 'no class'}: {old} -> {new}; "
            f"really {d.became}, {d.gpu_hours:,.1f} GPU-hours, {d.gain_hours:+,.1f}"
        )
    return lines


def _policy(label: str, one: PolicyReplay) -> list[str]:
    lines = ["", f"{label}: policy {one.policy} ({one.digest})"]
    lines.append("  " + ", ".join(f"{action} {n}" for action, n in one.actions))
    lines.append(f"  wrong stops       {one.wrong_stops}")
    lines.append(f"  wrong restarts    {one.wrong_restarts}")
    lines.append(f"  wrong exclusions  {one.wrong_exclusions}")
    lines.append(
        f"  GPU-hours: saved by right stops {one.saved_hours:,.1f}, forgone by wrong stops {one.forgone_hours:,.1f}, "
        f"wasted by wrong restarts {one.wasted_hours:,.1f}"
    )
    wide = max(len(r.row) for r in one.rows)
    lines.append(
        f"  {'row':<{wide}} {'attempts':>9} {'stops':>7} {'restarts':>9} {'right':>7} {'wrong':>7} {'wasted h':>10}"
    )
    for r in one.rows:
        counts = f"{r.attempts:>9} {r.stops:>7} {r.restarts:>9} {r.right:>7} {r.wrong:>7}"
        lines.append(f"  {r.row:<{wide}} {counts} {r.wasted_hours:>10,.1f}")
    return lines


def expect(
    policy: Annotated[
        Path | None, typer.Option("--policy", help="Policy document.  [default: the shipped one]")
    ] = None,
    against: Annotated[Path | None, typer.Option("--against", help="A second policy to compare with.")] = None,
    gpus: Annotated[int, typer.Option("--gpus", min=8, help="GPUs of the job, 8 a node.")] = 16_384,
    days: Annotated[float, typer.Option("--days", min=0.1, max=1000, help="Days that it trains.")] = 30.0,
    failures: Annotated[float, typer.Option("--failures", min=0, help="Failures per 1000 node-days.")] = 3.79,
    checkpoint: Annotated[float, typer.Option("--checkpoint", min=0.1, help="Minutes between checkpoints.")] = 30.0,
    persistent: Annotated[
        float, typer.Option("--persistent", min=0, max=1, help="Share of hardware faults that stay on their node.")
    ] = 0.5,
    sure: Annotated[float, typer.Option("--sure", min=0, max=1, help="Share of diagnoses that are sure.")] = 0.9,
    person: Annotated[float, typer.Option("--person", min=0, help="Hours that a held job waits.")] = 2.0,
    runs: Annotated[int, typer.Option("--runs", min=2, max=1000, help="Simulated jobs.")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal results.")] = 1,
    format_: Format = "rich",
) -> None:
    """Expected training time ratio of a policy before any history exists, from published failure rates and mixes."""
    from attribution.policy.fleet import Plant
    from attribution.policy.fleet import expect as expected

    known(format_, "rich", "json")
    plant = Plant(
        gpus=gpus, days=days, failures=failures, checkpoint_s=checkpoint * 60, persistent=persistent, sure=sure,
        person_s=person * 3600,
    )  # fmt: skip
    documents = [load(policy), *([load(against)] if against is not None else [])]
    got = [expected(p, taxonomy=taxonomy(None), plant=plant, runs=runs, seed=seed) for p in documents]
    if format_ == "json":
        print_json(got)
        return
    typer.echo(
        f"{gpus:,} GPUs, one failure in {got[0].mttf_hours:.2f} h, {runs} simulated jobs of {days:g} days, seed {seed}"
    )
    for e in got:
        typer.echo(
            f"policy {e.policy}: training time ratio {e.ettr:.3f} ({e.ettr_low:.3f} to {e.ettr_high:.3f}); "
            f"redone {e.redone:.3f}, starting {e.starting:.3f}, waiting for a person {e.waiting:.3f}\n"
            f"  a day: {e.failures_per_day:.1f} failures, {e.holds_per_day:.2f} holds, {e.exclusions_per_day:.1f} exclusions"
        )


def lemons(
    store: StoreOption = DEFAULT,
    half_life: Annotated[
        float, typer.Option("--half-life", min=0.1, help="Days after which an event counts half.")
    ] = 30.0,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Most nodes listed.")] = 20,
    format_: Format = "rich",
) -> None:
    """Nodes that fail more often than chance lets them, over all jobs in the store."""
    import time

    from attribution.policy.lemons import LemonRules, ledger
    from attribution.policy.past import records

    known(format_, "rich", "json")
    entries = ledger(records(store_frame(store)), now_s=time.time(), rules=LemonRules(half_life_days=half_life))
    if format_ == "json":
        print_json(entries[:rows])
        return
    typer.echo(f"{len(entries)} nodes, {sum(e.lemon for e in entries)} lemons; rates per 1000 node-hours")
    for e in entries[:rows]:
        if e.events:
            typer.echo(
                f"  {'LEMON ' if e.lemon else '      '}{e.node}: {e.events} faults on {e.jobs} jobs in {e.hours:,.0f} h, "
                f"{1000 * e.events / e.hours if e.hours else 0:.2f} ({e.rate_low:.2f} to {e.rate_high:.2f}), "
                f"rest {e.fleet_rate:.3f}, q = {e.q:.2g}; {', '.join(e.classes[:3])}"
            )


def receipt(
    job: Annotated[str, typer.Argument(help="Job id.")], store: StoreOption = DEFAULT, format_: Format = "rich"
) -> None:
    """After each restart of a job: was the right checkpoint loaded, what was lost. Exit code 1 where one was not."""
    from attribution.model import StoreError
    from attribution.policy.past import chains, records
    from attribution.policy.receipt import receipts

    known(format_, "rich", "json")
    found = chains(records(store_frame(store, "where a.job_id = ?", [job])))
    if not found:
        raise StoreError(f"no job {job!r}", where=str(store), mend='see recovery query "select job_id from attempts"')
    got = [r for chain in found for r in receipts(chain)]
    if format_ == "json":
        print_json(got)
    else:
        typer.echo("\n".join(r.sentence() for r in got) or "one attempt, no restart")
    raise typer.Exit(1 if any(r.flagged for r in got) else 0)
