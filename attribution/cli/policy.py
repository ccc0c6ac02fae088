"""``recovery policy``: read, prove, show and explain policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from attribution.cli import policy_history
from attribution.cli.policy_common import (
    DEFAULT,
    Format,
    Overlays,
    StoreOption,
    load,
    one_of,
    print_json,
    store_frame,
    taxonomy,
)

policy_app = typer.Typer(help="Check, test, show, explain and simulate policies.", no_args_is_help=True)

File = Annotated[Path | None, typer.Argument(help="Policy document.  [default: the shipped one]", show_default=False)]
PolicyOption = Annotated[Path | None, typer.Option("--policy", help="Policy document.  [default: the shipped one]")]


@policy_app.command("check")
def check(file: File = None, rules: Overlays = None, format_: Format = "rich") -> None:
    """Lint a policy: dead rows, unknown names, contradictions, missing or failing tests. Exit code 1 for any error."""
    from attribution.policy.lint import check_policy

    one_of(format_, "rich", "json")
    policy = load(file)
    found = check_policy(policy, taxonomy(rules))
    if format_ == "json":
        print_json([{"code": f.code, "slug": f.slug, "where": f.where, "what": f.what, "mend": f.mend} for f in found])
    else:
        for f in found:
            typer.echo(f"{policy.path}: {f.code} {f.slug}: {f.where}: {f.what}\n  to mend it: {f.mend}")
        errors = sum(f.is_error for f in found)
        typer.echo(
            f"{len(policy.rows)} rows, {len(policy.tests)} tests, {errors} errors, {len(found) - errors} warnings"
        )
    raise typer.Exit(1 if any(f.is_error for f in found) else 0)


@policy_app.command("test")
def test(file: File = None, rules: Overlays = None, format_: Format = "rich") -> None:
    """Run the inline tests of a policy. Exit code 1 where one fails."""
    from attribution.policy.cases import run_tests

    one_of(format_, "rich", "json")
    results = run_tests(load(file), taxonomy(rules))
    if format_ == "json":
        print_json(
            [
                {"name": r.case.name, "action": r.advice.action, "row": r.advice.reason_code, "problems": r.problems}
                for r in results
            ]
        )
    else:
        for r in results:
            typer.echo(
                f"{'FAIL' if r.problems else 'ok  '} {r.case.name}" + "".join(f"\n       {p}" for p in r.problems)
            )
        bad = sum(bool(r.problems) for r in results)
        typer.echo(f"{len(results)} tests, {bad} failed")
    raise typer.Exit(1 if any(r.problems for r in results) else 0)


@policy_app.command("show")
def show(
    file: File = None,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Every class, status and history, and what the policy answers.")
    ] = False,
    rules: Overlays = None,
    format_: Format = "rich",
) -> None:
    """Print a policy as it was understood, or all of its answers as a matrix."""
    from attribution.policy.matrix import matrix as cells_of
    from attribution.policy.matrix import matrix_text

    one_of(format_, "rich", "json")
    policy = load(file)
    if matrix:
        cells = cells_of(policy, taxonomy(rules))
        if format_ == "json":
            print_json(cells)
        else:
            typer.echo(matrix_text(policy, cells), nl=False)
        return
    if format_ == "json":
        print_json({"policy": policy.name, "digest": policy.digest, "rows": policy.rows, "limits": policy.limits})
        return
    typer.echo(f"policy {policy.name} ({policy.path}, digest {policy.digest[:16]})")
    for row in policy.rows:
        typer.echo(f"  {row.id}: {row.action or 'taxonomy'} when {_conditions(row.when) or 'nothing before it held'}")
    for name in policy.limits.__dataclass_fields__:
        typer.echo(f"  limit {name}: {getattr(policy.limits, name)}")


def _conditions(when: Any) -> str:
    given = ((name, getattr(when, name)) for name in when.__dataclass_fields__)
    return ", ".join(
        f"{name} {' or '.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in given
        if value not in ((), None)
    )


@policy_app.command("explain")
def explain(
    attempt: Annotated[str, typer.Argument(help="Attempt id, or the beginning of one.")],
    store: StoreOption = DEFAULT,
    policy: PolicyOption = None,
    rules: Overlays = None,
    format_: Format = "rich",
) -> None:
    """Why this advice, why no other row, and which evidence would change it. History comes from the store."""
    from attribution.policy.explain import explain as explained
    from attribution.policy.past import chains, histories_of, records
    from attribution.store import Store

    one_of(format_, "rich", "json")
    document = Store(store).document(attempt)
    wanted, job = document["attempt"]["id"], document["attempt"]["job_id"]
    chain = records(store_frame(store, "where a.job_id = ?", [job]))
    mine = next(c for c in chains(chain) if any(r.attempt_id == wanted for r in c))
    record = next(r for r in mine if r.attempt_id == wanted)
    got = explained(
        record.diagnosis,
        record.attempt,
        policy=load(policy),
        taxonomy=taxonomy(rules),
        history=histories_of(mine)[wanted],
    )
    if format_ == "json":
        print_json(got)
    else:
        typer.echo("\n".join((f"attempt {wanted}", *got.sentences())))


policy_app.command("simulate")(policy_history.simulate)
policy_app.command("expect")(policy_history.expect)
policy_app.command("lemons")(policy_history.lemons)
policy_app.command("receipt")(policy_history.receipt)
