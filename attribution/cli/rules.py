"""`recovery rules`: write, prove, measure and compare signatures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Write, prove, measure and compare signatures.")

Rules = Annotated[
    list[Path] | None,
    typer.Option("--rules", help="Overlay folder of rules; may be given several times, later ones win."),
]


def _folders(overlays: list[Path] | None) -> list[Path]:
    from attribution.resources import rules_dir

    return [rules_dir(), *(overlays or [])]


@app.command("test")
def test(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids or leading words of ids; all by default.")] = None,
    rules: Rules = None,
) -> None:
    """Prove signatures by their own examples and counterexamples."""
    from attribution.signatures import examine
    from attribution.signatures.proof import prove_all

    ruleset, findings = examine(_folders(rules))
    findings = [*findings, *prove_all(ruleset, ids or ())]
    for finding in findings:
        typer.echo(str(finding))
    typer.echo(f"{len(ruleset.signatures)} signatures, {len(findings)} findings", err=True)
    raise typer.Exit(1 if findings else 0)


@app.command("check")
def check(
    rules: Rules = None,
    output: Annotated[str, typer.Option("--format", help="rich, json, sarif or github.")] = "rich",
    healthy: Annotated[
        list[Path] | None, typer.Option("--healthy", help="Logs of healthy runs, files or folders, to stay silent on.")
    ] = None,
    codes: Annotated[list[str] | None, typer.Option("--code", help="Only these codes, as R014.")] = None,
    only: Annotated[list[str] | None, typer.Option("--id", help="Only signatures whose id begins so.")] = None,
) -> None:
    """Lint rules: schema, proofs, overlaps, loops, speed, silence on healthy logs. All findings at once.

    Exit code 0 without findings, 1 with some, 2 where the rules cannot be read.
    """
    from attribution.cli.rules_report import findings_report
    from attribution.match import Matcher
    from attribution.model import RuleError
    from attribution.signatures import examine
    from attribution.signatures.lint import lint

    try:
        ruleset, findings = examine(_folders(rules))
        findings += lint(ruleset, Matcher(ruleset), _healthy(healthy))
    except (RuleError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    wanted = [
        f
        for f in findings
        if (not codes or f.code in codes) and (not only or (f.signature or "").startswith(tuple(only)))
    ]
    typer.echo(findings_report(wanted, output), nl=False)
    typer.echo(f"{len(ruleset.signatures)} signatures, {len(wanted)} findings", err=True)
    raise typer.Exit(1 if wanted else 0)


def _healthy(given: list[Path] | None) -> list[Path]:
    """Files to stay silent on: those given, else the samples of a checkout."""
    from attribution.resources import data_root

    places = given or [data_root() / "data" / "samples" / "healthy"]
    out: list[Path] = []
    for place in places:
        out += sorted(place.rglob("*")) if place.is_dir() else [place]
    return [p for p in out if p.is_file() and p.suffix in (".log", ".out", ".err", ".txt", "")]


@app.command("coverage")
def coverage(
    catalog: Annotated[Path, typer.Option("--catalog", help="Folder of a catalogue: NAME.jsonl and causes.yaml.")],
    rules: Rules = None,
    output: Annotated[str, typer.Option("--format", help="rich or json.")] = "rich",
    list_missing: Annotated[int, typer.Option("--list-missing", help="Rows listed per cell that are not covered.")] = 0,
    waivers: Annotated[
        Path | None, typer.Option("--waivers", help="Waived rows.  [default: waivers.yaml of the rules]")
    ] = None,
    file: Annotated[list[str] | None, typer.Option("--file", help="Only these catalogue files.")] = None,
    tier: Annotated[list[int] | None, typer.Option("--tier", help="Only these tiers.")] = None,
) -> None:
    """Measure which messages of the emitters' catalogues the signatures recognise.

    Exit code 0 where every target is met, 1 where one is missed.
    """
    from attribution.cli.rules_report import coverage_report
    from attribution.match import Matcher
    from attribution.resources import rules_dir
    from attribution.signatures import examine
    from attribution.signatures.coverage import cells, judge, read_catalog, read_waivers

    ruleset, findings = examine(_folders(rules))
    for finding in findings:
        typer.echo(str(finding), err=True)
    rows, causes = read_catalog(catalog)
    rows = [r for r in rows if (not file or r.file in file) and (not tier or r.tier in tier)]
    judged = judge(rows, causes, Matcher(ruleset), read_waivers(waivers or rules_dir() / "waivers.yaml"))
    typer.echo(coverage_report(cells(judged), judged, output, list_missing), nl=False)
    raise typer.Exit(0 if all(c.met for c in cells(judged)) else 1)


if __name__ == "__main__":
    app()
