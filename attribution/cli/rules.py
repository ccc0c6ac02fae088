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


if __name__ == "__main__":
    app()
