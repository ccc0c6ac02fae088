"""The work of ``recovery analyze``: discover, skip what is known, analyse, store, print, say what went wrong."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from attribution import __version__
from attribution.analyze import Analyzer, Options
from attribution.cli.output import Form, Format, Writer
from attribution.report.json import advice_document, diagnosis_document
from attribution.result import Result
from attribution.sources.discover import Discovery, JobFiles, discover
from attribution.store import Store
from attribution.store.manifest import Input
from attribution.store.past import Past
from attribution.workers import run_jobs

#: Rich output shows attempts in full only up to this many; beyond, only the documents that failed are kept for the table.
KEEP_DOCUMENTS = 20_000


def run(
    paths: list[str],
    options: Options,
    *,
    store: Path | None,
    output: Format,
    jobs: int = 0,
    reanalyze: bool = False,
    quiet: bool = False,
) -> int:
    """Analyse and give the exit code: 0 all read, 1 something could not be read, 2 nothing was found."""
    found = discover(paths, patterns=options.patterns, each=options.each, kernel_logs=options.kernel_logs)
    problems = [f"{p.path}: {p.what}" for p in found.problems if p.lost]
    if not found.groups:
        left = [f"{p.path}: {p.what}" for p in found.problems]
        _complain(left or [f"no logs below {', '.join(paths)}"], quiet=False)
        return 2
    analyzer = Analyzer(options)  # rules and policy are checked before any work begins
    opened = Store(store, create=True) if store is not None else None
    fresh, known = _split(found, analyzer, opened, reanalyze)
    documents: list[dict[str, Any]] = []
    with ExitStack() as stack:
        writer = stack.enter_context(Writer(output)) if output.form is not Form.RICH else None
        _known_documents(known, opened, writer, documents)
        sink = past = None
        shown: Counter[str] = Counter()
        if opened is not None and fresh.groups:
            past = Past(opened)
            sink = stack.enter_context(
                opened.writer(rules=analyzer.digests.rules, engine=__version__, classify=_classifier(analyzer))
            )
        on_bytes = stack.enter_context(_bar(fresh, quiet))
        for job, found_now in run_jobs(fresh, options, jobs=jobs, on_bytes=on_bytes, analyzer=analyzer):
            results = _with_past(_told_apart(found_now, shown), past, analyzer)
            told = [diagnosis_document(r.evidence.attempt, r.diagnosis, r.advice) for r in results]
            problems.extend(n for r in results for n in r.evidence.notes)
            if sink is not None:
                sink.add(results, [_stored(d, r) for d, r in zip(told, results, strict=True)], _inputs(job))
            for r, document in zip(results, told, strict=True):
                _emit(str(r.evidence.attempt.key), document, writer, documents)
    if output.form is Form.RICH:
        _show(documents, output, store)
    _complain(problems, quiet=quiet and output.form is Form.RICH)
    return 1 if problems else 0


def _told_apart(results: tuple[Result, ...], shown: Counter[str]) -> tuple[Result, ...]:
    """Every attempt of a run has a key of its own: a second one of that key, from other files, is called ``JOB~2``.

    Nobody can say whether two logs that name one job are copies or steps of it, so both are shown, stored and counted;
    and Slurm is asked nothing about a job that is not surely meant.
    """
    out = []
    for r in results:
        key = r.evidence.attempt.key
        shown[str(key)] += 1
        out.append(r if shown[str(key)] == 1 else r.called(replace(key, job_id=f"{key.job_id}~{shown[str(key)]}")))
    return tuple(out)


def _with_past(results: tuple[Result, ...], past: Past | None, analyzer: Analyzer) -> tuple[Result, ...]:
    """Advice with what the store knows of the job's earlier attempts."""
    histories = past.histories(results) if past is not None else {}
    return tuple(
        replace(r, advice=analyzer.advise(r.diagnosis, r.evidence.attempt, histories[i])) if i in histories else r
        for i, r in enumerate(results)
    )


def _split(
    found: Discovery, analyzer: Analyzer, store: Store | None, reanalyze: bool
) -> tuple[Discovery, tuple[JobFiles, ...]]:
    """Jobs that need work, and jobs whose files are all in the store unchanged."""
    if store is None or reanalyze:
        return found, ()
    files = [f.path for job in found.groups for f in job.files if f.path != "-"]
    seen = store.seen(files, rules=analyzer.digests.rules, engine=__version__)
    known = tuple(job for job in found.groups if all(f.path in seen for f in job.files))
    fresh = tuple(job for job in found.groups if not all(f.path in seen for f in job.files))
    return replace(found, groups=fresh), known


def _known_documents(
    known: tuple[JobFiles, ...], store: Store | None, writer: Writer | None, documents: list[dict[str, Any]]
) -> None:
    """What the store says of unchanged jobs is shown like fresh results."""
    if not known or store is None:
        return
    wanted = {f.display for job in known for f in job.files}
    frame = store.sql(
        "select d.attempt_id, d.document, a.files from diagnoses d join attempts a using (attempt_id, run_id) order by 1"
    )
    for attempt_id, document, files in frame.iter_rows():
        if wanted.intersection(files or ()):
            _emit(attempt_id, orjson.loads(document), writer, documents)


def _emit(attempt_id: str, document: dict[str, Any], writer: Writer | None, documents: list[dict[str, Any]]) -> None:
    if writer is not None:
        writer.add(attempt_id, document)
    elif len(documents) < KEEP_DOCUMENTS:
        documents.append(document)


def _stored(document: dict[str, Any], result: Result) -> tuple[str, str]:
    return orjson.dumps(document).decode(), orjson.dumps(advice_document(result.advice)).decode()


def _inputs(job: JobFiles) -> list[Input]:
    return [i for f in job.files if f.path != "-" and (i := Input.of(f.path)) is not None]


def _classifier(analyzer: Analyzer) -> Callable[[str], tuple[str | None, str | None]]:
    """Exemplar -> (signature, class): what the rules say of a template."""

    def classify(exemplar: str) -> tuple[str | None, str | None]:
        best = analyzer.match_text(exemplar)
        return (best.signature, best.failure_class) if best is not None else (None, None)

    return classify


@contextmanager
def _bar(found: Discovery, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A progress bar with bytes per second and time left on standard error, or nothing."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    total = sum(job.size_bytes for job in found.groups)
    columns = (TextColumn("analysing"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        # Compressed files give more bytes than they have on disk; the bar is a guide, not an account.
        task = progress.add_task("", total=total or None)
        yield lambda n: progress.update(task, advance=n)


def _show(documents: list[dict[str, Any]], output: Format, store: Path | None) -> None:
    from rich.console import Console

    from attribution.report.console import show

    with ExitStack() as stack:
        file = stack.enter_context(output.path.open("w", encoding="utf-8")) if output.path is not None else None
        console = Console(file=file)
        show(documents, console)
        if store is not None and documents and file is None:
            console.print(f"stored in {store}; look closer with: recovery explain ATTEMPT --store {store}", style="dim")


def _complain(problems: list[str], *, quiet: bool) -> None:
    if quiet:
        problems = [p for p in problems if "skipped" not in p]
    for p in problems[:20]:
        sys.stderr.write(f"recovery: {p}\n")
    if len(problems) > 20:
        sys.stderr.write(f"recovery: and {len(problems) - 20} more; see recovery doctor\n")
