"""``recovery evaluate``: how right the diagnoses are on labelled logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from attribution.evaluate import Score


def evaluate(
    corpus: Annotated[Path, typer.Argument(help="Folder with labels.jsonl, or a labels file beside the logs.")],
    predictions: Annotated[
        Path | None, typer.Option("--predictions", help="Documents to score instead of analysing the logs now.")
    ] = None,
    against: Annotated[Path | None, typer.Option("--against", help="Other predictions to compare with.")] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="FIELD=VALUE of the labels; may be given again.")
    ] = None,
    misses: Annotated[bool, typer.Option("--misses", help="List every field that is not as labelled.")] = False,
    format_: Annotated[str, typer.Option("--format", "-f", help="rich or json.")] = "rich",
    rules: Annotated[list[Path] | None, typer.Option("--rules", help="Overlay folder with site rules.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Processes; 0 takes one per core.")] = 0,
    save: Annotated[Path | None, typer.Option("--save", help="Write the documents that were scored.")] = None,
) -> None:
    """Score diagnoses against labels: outcome, family, class, root line, culprit, action, false alarms, calibration."""
    import orjson

    from attribution.evaluate import as_plain, read_jsonl
    from attribution.evaluate import evaluate as score_all

    labels_file = corpus / "labels.jsonl" if corpus.is_dir() else corpus
    labels = [row for row in read_jsonl(labels_file) if _wanted(row, only or [])]
    if predictions is not None:
        documents = read_jsonl(predictions)
    else:
        documents = _analyse(labels_file.parent, labels, tuple(rules or ()), jobs)
    if save is not None:
        save.write_bytes(b"".join(orjson.dumps(d) + b"\n" for d in documents))
    score = score_all(labels, documents)
    other = score_all(labels, read_jsonl(against)) if against is not None else None
    if format_ == "json":
        plain: dict[str, Any] = as_plain(score)
        if other is not None:
            plain["against"] = as_plain(other)["fields"]
        typer.echo(orjson.dumps(plain, option=orjson.OPT_INDENT_2).decode())
    else:
        _print(score, other, misses)


def _wanted(row: dict[str, Any], only: list[str]) -> bool:
    pairs = [o.split("=", 1) for o in only if "=" in o]
    return all(str(row.get(k)) == v for k, v in pairs)


def _analyse(folder: Path, labels: list[dict[str, Any]], rules: tuple[Path, ...], jobs: int) -> list[dict[str, Any]]:
    from attribution.analyze import Options
    from attribution.report.json import diagnosis_document
    from attribution.workers import results

    paths = [str(folder / str(row["path"])) for row in labels]
    options = Options(each=True, rules=rules, mine=False)
    return [diagnosis_document(r.evidence.attempt, r.diagnosis, r.advice) for r in results(paths, options, jobs=jobs)]


def _print(score: Score, other: Score | None, misses: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from attribution.evaluate import FIELDS, expected_calibration_error, reliability, wilson

    console = Console()
    table = Table(title=f"{score.cases} cases, {score.unanswered} without an answer", title_justify="left")
    for name in ("field", "right", "share", "95 % interval", *(["other"] if other else [])):
        table.add_column(name, justify="left" if name == "field" else "right")
    for name in FIELDS:
        n = score.total[name]
        if not n:
            continue
        low, high = wilson(score.hit[name], n)
        cells = [name, f"{score.hit[name]}/{n}", f"{score.hit[name] / n:.1%}", f"{low:.1%} to {high:.1%}"]
        if other is not None:
            cells.append(f"{other.hit[name] / other.total[name]:.1%}" if other.total[name] else "-")
        table.add_row(*cells)
    console.print(table)
    families = ", ".join(f"{k} {a}/{b}" for k, (a, b) in sorted(score.by_family.items()))
    console.print(f"class by labelled family: {families}", highlight=False)
    statuses = ", ".join(f"{k} {a}/{b}" for k, (a, b) in sorted(score.by_status.items()))
    console.print(f"class by status: {statuses}", highlight=False)
    console.print(
        f"calibration error {expected_calibration_error(score.calibration):.3f}; by confidence:", highlight=False
    )
    for b in reliability(score.calibration):
        console.print(
            f"  {b.low:.2f}-{b.high:.2f}  n={b.n:<4} predicted {b.predicted:.2f}  observed {b.observed:.2f}",
            highlight=False,
        )
    if misses:
        for (gold, got), n in sorted(score.confusion.items(), key=lambda x: (-x[1], x[0])):
            console.print(f"  confused {n}x: {gold} -> {got or '(none)'}", highlight=False)
        for m in score.misses:
            console.print(escape(f"  miss {m.case} {m.field}: got {m.got}, labelled {m.gold}"), highlight=False)
