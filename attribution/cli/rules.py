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
