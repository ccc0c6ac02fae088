"""``recovery policy``: read, prove, show and explain policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl

    from attribution.policy import Policy
    from attribution.signatures import ClassInfo

policy_app = typer.Typer(help="Check, test, show, explain and simulate policies.", no_args_is_help=True)

File = Annotated[Path | None, typer.Argument(help="Policy document.  [default: the shipped one]", show_default=False)]
PolicyOption = Annotated[Path | None, typer.Option("--policy", help="Policy document.  [default: the shipped one]")]
StoreOption = Annotated[Path, typer.Option("--store", help="Folder of the store.", envvar="RECOVERY_STORE")]
Format = Annotated[str, typer.Option("--format", "-f", help="rich or json.")]
Overlays = Annotated[list[Path] | None, typer.Option("--rules", help="Overlay folder of rules; may be given again.")]
DEFAULT = Path("recovery-store")


def _taxonomy(overlays: list[Path] | None) -> Mapping[str, ClassInfo]:
    from attribution import resources
    from attribution.signatures import load

    return load((resources.rules_dir(), *(overlays or ()))).taxonomy


def _load(path: Path | None) -> Policy:
    from attribution.policy import load_policy

    return load_policy(path)


def _json(value: Any) -> None:
    import orjson

    from attribution.model import to_plain

    typer.echo(orjson.dumps(to_plain(value), option=orjson.OPT_INDENT_2).decode())


def _form(format_: str, *known: str) -> str:
    if format_ not in known:
        raise typer.BadParameter(f"use {' or '.join(known)}", param_hint="--format")
    return format_


@policy_app.command("check")
def check(file: File = None, rules: Overlays = None, format_: Format = "rich") -> None:
    """Lint a policy: dead rows, unknown names, contradictions, missing or failing tests. Exit code 1 for any error."""
    from attribution.policy.lint import check_policy

    _form(format_, "rich", "json")
    policy = _load(file)
    found = check_policy(policy, _taxonomy(rules))
    if format_ == "json":
        _json([{"code": f.code, "slug": f.slug, "where": f.where, "what": f.what, "mend": f.mend} for f in found])
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

    _form(format_, "rich", "json")
    results = run_tests(_load(file), _taxonomy(rules))
    if format_ == "json":
        _json(
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

    _form(format_, "rich", "json")
    policy = _load(file)
    if matrix:
        cells = cells_of(policy, _taxonomy(rules))
        if format_ == "json":
            _json(cells)
        else:
            typer.echo(matrix_text(policy, cells), nl=False)
        return
    if format_ == "json":
        _json({"policy": policy.name, "digest": policy.digest, "rows": policy.rows, "limits": policy.limits})
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


def _records(store: Path, where: str = "", parameters: Iterable[Any] = ()) -> pl.DataFrame:
    from attribution.policy.past import RECORDS_SQL
    from attribution.store import Store

    return Store(store).sql(RECORDS_SQL + where, list(parameters))


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

    _form(format_, "rich", "json")
    document = Store(store).document(attempt)
    wanted, job = document["attempt"]["id"], document["attempt"]["job_id"]
    chain = records(_records(store, "where a.job_id = ?", [job]))
    mine = next(c for c in chains(chain) if any(r.attempt_id == wanted for r in c))
    record = next(r for r in mine if r.attempt_id == wanted)
    got = explained(
        record.diagnosis,
        record.attempt,
        policy=_load(policy),
        taxonomy=_taxonomy(rules),
        history=histories_of(mine)[wanted],
    )
    if format_ == "json":
        _json(got)
    else:
        typer.echo("\n".join((f"attempt {wanted}", *got.sentences())))
