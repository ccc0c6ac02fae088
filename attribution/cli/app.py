"""The Typer application: one place that lists every command."""

from __future__ import annotations

import typer

from attribution.cli import (
    analyze,
    bundle,
    config,
    doctor,
    evaluate,
    explain,
    query,
    reconcile,
    report,
    serve,
    watch,
)
from attribution.cli.policy import policy_app
from attribution.cli.rules import app as rules_app

app = typer.Typer(
    name="recovery",
    help="Tells why a training job died, where, whether to retry and without which node; and acts on it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(value: bool) -> None:
    if value:
        from attribution import __version__

        typer.echo(f"recovery {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    """Tells why a training job died, where, whether to retry and without which node; and acts on it."""
    from attribution.config import load_settings

    # settings become the defaults of the options: a flag wins, and --help shows what is in force
    ctx.default_map = config.default_map(ctx.command, load_settings())


app.command("analyze")(analyze.analyze)
app.command("explain")(explain.explain)
app.command("evaluate")(evaluate.evaluate)
app.command("doctor")(doctor.doctor)
app.command("watch")(watch.watch)
app.command("query")(query.query)
app.command("report")(report.report)
app.command("serve")(serve.serve)
app.command("bundle")(bundle.bundle)
app.command("replay")(bundle.replay)
app.command("reconcile")(reconcile.reconcile)
app.command("undrain")(reconcile.undrain)
app.add_typer(query.store_app, name="store")
app.add_typer(rules_app, name="rules")
app.add_typer(policy_app, name="policy")
app.add_typer(config.app, name="config")
