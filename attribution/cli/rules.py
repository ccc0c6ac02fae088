"""`recovery rules`: write, prove, measure and compare signatures.

Exit codes: 0 nothing is wrong, 1 something is, 2 it could not be done.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from attribution.signatures import Finding, RuleSet, Signature

app = typer.Typer(no_args_is_help=True, help="Write, prove, measure and compare rules.", rich_markup_mode=None)

Rules = Annotated[
    list[Path] | None,
    typer.Option("--rules", help="Overlay folder of rules; may be given several times, later ones win."),
]
Format = Annotated[str, typer.Option("--format", "-f", help="rich or json.")]


def _folders(overlays: list[Path] | None) -> list[Path]:
    from attribution.resources import rules_dir

    base = rules_dir()
    if base.is_relative_to(Path.cwd()):
        base = base.relative_to(Path.cwd())  # reports of a checkout name files as its history does
    return [base, *(overlays or [])]


def _examined(overlays: list[Path] | None) -> tuple[RuleSet, list[Finding]]:
    from attribution.signatures import examine

    return examine(_folders(overlays))


@app.command("new")
def new(
    rule: Annotated[str, typer.Argument(metavar="ID", help="Emitter first, then words: nccl.net.peer_reset")],
    line: Annotated[str, typer.Option("--line", help="The line as printed, prefixes and all.")],
    failure_class: Annotated[str, typer.Option("--class", help="family.cause; leave out for progress, noise.")] = "",
    role: Annotated[str, typer.Option("--role", help="root, cascade, teardown, confirmation, progress ...")] = "root",
    source: Annotated[str, typer.Option("--source", help="Kind of log that prints it.")] = "job_log",
    folder: Annotated[Path | None, typer.Option("--into", help="Rules folder.  [default: the packaged one]")] = None,
) -> None:
    """Draft a rule from a line that you have seen, and say where it lies."""
    from attribution.model import Role, RuleError, Source
    from attribution.resources import rules_dir
    from attribution.signatures.scaffold import draft, is_id

    if not is_id(rule):
        raise RuleError(f"{rule!r} is no id", mend="small letters, digits and _, at least two words joined by dots")
    ruleset, _ = _examined([folder] if folder and folder.is_dir() else None)
    if rule in ruleset.by_id:
        place = ruleset.by_id[rule]
        raise RuleError(f"{rule} exists", where=f"{place.path}:{place.line}", mend="choose another id, or edit that")
    if failure_class and failure_class not in ruleset.taxonomy:
        raise RuleError(f"unknown class {failure_class}", mend="`recovery rules list --classes` shows them all")
    if role not in {*Role} or source not in {*Source}:
        raise RuleError(f"unknown role {role!r} or source {source!r}", mend="see docs/how-to/write-a-rule.md")
    words = rule.split(".")
    path = (folder or rules_dir()) / "signatures" / words[0] / f"{words[1] if len(words) > 2 else 'local'}.yaml"
    text = draft(rule, line, failure_class, role, Source(source))
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8").rstrip("\n") if path.exists() else "signatures:"
    path.write_text(f"{before}\n{text}", encoding="utf-8")
    typer.echo(f"{path}:{before.count(chr(10)) + 2}")
    typer.echo(f"Next: write title, limits, fix and a counterexample, then `recovery rules test {rule}`.", err=True)


@app.command("list")
def list_rules(
    rules: Rules = None,
    failure_class: Annotated[str, typer.Option("--class", help="Class or family.")] = "",
    role: Annotated[str, typer.Option("--role", help="Only rules of this role.")] = "",
    emitter: Annotated[str, typer.Option("--emitter", help="First word of the id.")] = "",
    status: Annotated[str, typer.Option("--status", help="Only rules of this status.")] = "",
    mark: Annotated[str, typer.Option("--mark", help="Only rules with this mark.")] = "",
    line: Annotated[str, typer.Option("--line", help="Only rules that recognise this line, the speaker first.")] = "",
    classes: Annotated[bool, typer.Option("--classes", help="List failure classes instead.")] = False,
    output: Format = "rich",
) -> None:
    """List rules, or the rules that recognise a line."""
    from attribution.cli.rules_report import classes_report, rules_report
    from attribution.signatures import load

    ruleset = load(_folders(rules))
    if classes:
        typer.echo(classes_report(ruleset, output), nl=False)
        return
    chosen = [
        s
        for s in (_recognising(ruleset, line) if line else ruleset.signatures)
        if (not failure_class or f"{s.failure_class}.".startswith(f"{failure_class}."))
        and (not role or s.role.value == role)
        and (not emitter or s.emitter == emitter)
        and (not status or s.status.value == status)
        and (not mark or mark in s.marks)
    ]
    typer.echo(rules_report(chosen, output), nl=False)
    raise typer.Exit(0 if chosen or not line else 1)


def _recognising(ruleset: RuleSet, text: str) -> list[Signature]:
    from attribution.match import Matcher
    from attribution.model import Source
    from attribution.signatures.proof import parsed

    matcher = Matcher(ruleset)
    found = [m for source in Source for x in parsed(text, source) for m in matcher.match_line(x)]
    found.sort(key=lambda m: (-m.specificity, m.signature))
    return [ruleset.by_id[name] for name in dict.fromkeys(m.signature for m in found)]


@app.command("test")
def test(
    ids: Annotated[list[str] | None, typer.Argument(help="Ids or leading words of ids; all by default.")] = None,
    rules: Rules = None,
    scenarios: Annotated[bool, typer.Option(help="Run the scenario tests too, where no id is given.")] = True,
) -> None:
    """Prove rules by their own examples, and by the scenarios in their folders' `tests`."""
    from attribution.signatures.proof import prove_all

    ruleset, findings = _examined(rules)
    if ids and not any(s.id == x or s.id.startswith(f"{x.rstrip('*.')}.") for s in ruleset.signatures for x in ids):
        broken = [f for f in findings if (f.signature or "").startswith(tuple(ids))]
        for finding in broken:
            typer.echo(str(finding))
        typer.echo("no such rule" if not broken else "the rule cannot be read", err=True)
        raise typer.Exit(2 if not broken else 1)
    findings = [*findings, *prove_all(ruleset, ids or ())]
    for finding in findings:
        typer.echo(str(finding))
    failed = 0 if ids or not scenarios else _scenarios(ruleset, _folders(rules))
    typer.echo(f"{len(ruleset.signatures)} rules, {len(findings)} findings, {failed} scenarios failed", err=True)
    raise typer.Exit(1 if findings or failed else 0)


def _scenarios(ruleset: RuleSet, folders: Sequence[Path]) -> int:
    """Run the scenario tests of all folders, print what differs, and count the failed ones."""
    from attribution.signatures.scenario import load_scenarios, run

    failed = 0
    for folder in folders:
        found, findings = load_scenarios(folder / "tests")
        for finding in findings:
            typer.echo(str(finding))
        failed += len(findings)
        if not found:
            continue
        from attribution.cli.rules_run import Chain

        for scenario, differences in run(found, Chain(ruleset, folders).judge):
            failed += bool(differences)
            for what in differences:
                typer.echo(f"{scenario.path}:{scenario.line}: scenario {scenario.name!r}: {what}")
    return failed


@app.command("check")
def check(
    rules: Rules = None,
    output: Annotated[str, typer.Option("--format", "-f", help="rich, json, sarif or github.")] = "rich",
    healthy: Annotated[
        list[Path] | None, typer.Option("--healthy", help="Logs of healthy runs, files or folders, to stay silent on.")
    ] = None,
    codes: Annotated[list[str] | None, typer.Option("--code", help="Only these codes, as R014.")] = None,
    only: Annotated[list[str] | None, typer.Option("--id", help="Only rules whose id begins so.")] = None,
) -> None:
    """Lint rules: schema, proofs, overlaps, loops, speed, silence on healthy logs. All findings at once.

    Exit code 0 without findings, 1 with some, 2 where the rules cannot be read.
    """
    from attribution.cli.rules_report import findings_report
    from attribution.match import Matcher
    from attribution.model import RuleError
    from attribution.signatures.lint import lint

    try:
        ruleset, findings = _examined(rules)
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
    typer.echo(f"{len(ruleset.signatures)} rules, {len(wanted)} findings", err=True)
    raise typer.Exit(1 if wanted else 0)


def _healthy(given: list[Path] | None) -> list[Path]:
    """Files to stay silent on: those given, else the samples of a checkout."""
    from attribution.resources import data_root

    places = given or [data_root() / "data" / "samples" / "healthy"]
    out: list[Path] = []
    for place in places:
        out += sorted(place.rglob("*")) if place.is_dir() else [place]
    return [p for p in out if p.is_file() and p.suffix in (".log", ".out", ".err", ".txt", "")]


@app.command("docs")
def docs(
    rules: Rules = None,
    folder: Annotated[Path, typer.Option("--into", help="Folder of the pages.")] = Path("docs/reference/rules"),
    only_check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 where a page is stale.")] = False,
) -> None:
    """Write the reference pages of all rules."""
    from attribution.signatures import load
    from attribution.signatures.pages import stale, write

    ruleset = load(_folders(rules))
    if not only_check:
        typer.echo(f"{write(ruleset, folder)} pages written to {folder}", err=True)
        return
    old = stale(ruleset, folder)
    for name in old:
        typer.echo(f"{folder / name}: stale")
    raise typer.Exit(1 if old else 0)


@app.command("coverage")
def coverage(
    catalog: Annotated[Path, typer.Option("--catalog", help="Folder of a catalogue: NAME.jsonl and causes.yaml.")],
    rules: Rules = None,
    output: Format = "rich",
    list_missing: Annotated[int, typer.Option("--list-missing", help="Rows listed per cell that are not covered.")] = 0,
    waivers: Annotated[
        Path | None, typer.Option("--waivers", help="Waived rows.  [default: waivers.yaml of the rules]")
    ] = None,
    file: Annotated[list[str] | None, typer.Option("--file", help="Only these catalogue files.")] = None,
    tier: Annotated[list[int] | None, typer.Option("--tier", help="Only these tiers.")] = None,
) -> None:
    """Measure which messages of the emitters' catalogues the rules recognise.

    Exit code 0 where every target is met, 1 where one is missed.
    """
    from attribution.cli.rules_report import coverage_report
    from attribution.match import Matcher
    from attribution.resources import rules_dir
    from attribution.signatures.coverage import cells, judge, read_catalog, read_waivers

    ruleset, findings = _examined(rules)
    for finding in findings:
        typer.echo(str(finding), err=True)
    rows, causes = read_catalog(catalog)
    waived = read_waivers(waivers or rules_dir() / "waivers.yaml")
    unknown = sorted(waived.keys() - {r.id for r in rows})
    if unknown:
        typer.echo(f"{len(unknown)} waivers name no row, as {unknown[0]}", err=True)
    rows = [r for r in rows if (not file or r.file in file) and (not tier or r.tier in tier)]
    judged = judge(rows, causes, Matcher(ruleset), waived)
    counted = cells(judged)
    needless = sum(c.waived_covered for c in counted)
    if needless:
        typer.echo(f"{needless} waived rows are recognised without their waiver", err=True)
    typer.echo(coverage_report(counted, judged, output, list_missing), nl=False)
    raise typer.Exit(0 if all(c.met for c in counted) else 1)


@app.command("diff")
def diff(
    old: Annotated[Path, typer.Argument(help="Rules folder, whole or overlay.")],
    new_rules: Annotated[Path, typer.Argument(metavar="NEW", help="Rules folder, whole or overlay.")],
    logs: Annotated[list[str], typer.Argument(help="Files or folders of logs.")],
    each: Annotated[bool, typer.Option("--each", help="Every path is a job of its own.")] = False,
    kernel_log: Annotated[list[str] | None, typer.Option("--kernel-log", help="Kernel logs of the nodes.")] = None,
    output: Format = "rich",
) -> None:
    """Show which verdicts a change of rules alters: what it newly catches and what it newly breaks.

    Exit code 0 where nothing is newly broken, 1 where something is.
    """
    from attribution.cli.rules_report import changes_report
    from attribution.cli.rules_run import Chain, compare
    from attribution.signatures import load

    runs = []
    for folder in (old, new_rules):
        folders = [folder] if (folder / "taxonomy.yaml").is_file() else _folders([folder])
        runs.append(list(Chain(load(folders), folders).verdicts(logs, each=each, kernel=kernel_log or ())))
    changes = compare(runs[0], runs[1])
    typer.echo(changes_report(changes, len(runs[1]), output), nl=False)
    raise typer.Exit(1 if any(c.kind == "newly broken" for c in changes) else 0)


if __name__ == "__main__":
    app()
