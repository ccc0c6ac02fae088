"""The schemas of the stored tables: names, kinds and meaning of every column. docs/reference/schema.md is made from this."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a stored table. `kind` is str, i64, f64, bool, list[str] or json (a str holding JSON)."""

    name: str
    kind: str
    doc: str


#: Version of the store's layout; see docs/reference/schema.md for the migration rule.
STORE_VERSION = 1

_WHO = (
    Column(name="attempt_id", kind="str", doc="str(AttemptKey): cluster/job@submit.restart"),
    Column(name="run_id", kind="str", doc="the analysis that wrote the row; the newest run of an attempt counts"),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "attempts": (
        *_WHO,
        Column(name="cluster", kind="str", doc="cluster name, null where unknown"),
        Column(name="job_id", kind="str", doc="scheduler job id, or the file's name where none is known"),
        Column(name="submit_time_s", kind="i64", doc="submit time, seconds since the epoch"),
        Column(name="restart", kind="i64", doc="restart count within the job, 0 first"),
        Column(name="name", kind="str", doc="job name"),
        Column(name="user", kind="str", doc="user name"),
        Column(name="partition", kind="str", doc="partition"),
        Column(name="nodes", kind="list[str]", doc="nodes of the allocation, or those seen"),
        Column(name="files", kind="list[str]", doc="log files, as given"),
        Column(name="n_ranks", kind="i64", doc="world size where known"),
        Column(name="gpus", kind="i64", doc="GPUs allocated where known"),
        Column(name="state", kind="str", doc="scheduler state, null without accounting"),
        Column(name="exit_code", kind="i64", doc="exit code from accounting"),
        Column(name="exit_signal", kind="i64", doc="exit signal from accounting"),
        Column(name="time_limit_s", kind="i64", doc="time limit"),
        Column(name="start_time_s", kind="f64", doc="start, from accounting or the first stamped line"),
        Column(name="end_time_s", kind="f64", doc="end, from accounting or the last stamped line"),
        Column(name="comment", kind="str", doc="job comment"),
        Column(name="size_bytes", kind="i64", doc="decompressed bytes read"),
        Column(name="n_lines", kind="i64", doc="LF-ended lines read"),
        Column(name="dialect", kind="str", doc="progress dialect, null where none was recognised"),
        Column(name="first_step", kind="i64", doc="first step seen"),
        Column(name="last_step", kind="i64", doc="last step seen"),
        Column(name="total_steps", kind="i64", doc="planned steps"),
        Column(name="last_checkpoint_step", kind="i64", doc="step of the last checkpoint saved"),
        Column(name="loaded_checkpoint_step", kind="i64", doc="step of the checkpoint loaded at start"),
    ),
    "matches": (
        *_WHO,
        Column(name="signature", kind="str", doc="signature or detector id"),
        Column(name="role", kind="str", doc="role of the line in the diagnosis"),
        Column(name="class", kind="str", doc="failure class, null for context"),
        Column(name="path", kind="str", doc="file"),
        Column(name="line", kind="i64", doc="1-based LF line"),
        Column(name="offset", kind="i64", doc="byte offset in the decompressed file"),
        Column(name="time_s", kind="f64", doc="time stamp of the line or the nearest before it"),
        Column(name="host", kind="str", doc="host named by the prefix"),
        Column(name="rank", kind="i64", doc="global rank"),
        Column(name="source", kind="str", doc="kind of log"),
        Column(name="template_id", kind="i64", doc="template of the line"),
        Column(name="text", kind="str", doc="the line, redacted and bounded"),
        Column(name="fields", kind="json", doc="captured fields"),
        Column(name="count", kind="i64", doc="repetitions folded into this row"),
        Column(name="shadow", kind="bool", doc="true for a rule in shadow mode: recorded, not used"),
    ),
    "templates": (
        Column(name="template_id", kind="i64", doc="given at birth, never reused; the text may still change"),
        Column(name="template", kind="str", doc="text with <*> where lines differ"),
        Column(name="exemplar", kind="str", doc="a line of it, redacted"),
        Column(name="signature", kind="str", doc="signature that recognises the exemplar, null if none"),
        Column(name="class", kind="str", doc="failure class that a rule, the classifier or a person gave it"),
        Column(name="class_by", kind="str", doc="rule, classifier or person"),
        Column(name="run_id", kind="str", doc="analysis that wrote this version"),
    ),
    "template_counts": (
        *_WHO,
        Column(name="template_id", kind="i64", doc="template"),
        Column(name="count", kind="i64", doc="lines of it in the attempt"),
        Column(name="first_line", kind="i64", doc="line of its first appearance"),
        Column(name="first_path", kind="str", doc="file of its first appearance"),
    ),
    "episodes": (
        *_WHO,
        Column(name="episode", kind="i64", doc="0 is the one that the diagnosis rests on"),
        Column(name="role", kind="str", doc="initiating, cascade, teardown, confirmation or context"),
        Column(name="signature", kind="str", doc="signature"),
        Column(name="class", kind="str", doc="failure class"),
        Column(name="path", kind="str", doc="file"),
        Column(name="line", kind="i64", doc="line"),
        Column(name="rank", kind="i64", doc="global rank"),
        Column(name="recovered", kind="bool", doc="progress of the same operation followed"),
    ),
    "diagnoses": (
        *_WHO,
        Column(name="outcome", kind="str", doc="closed set Outcome"),
        Column(name="class", kind="str", doc="family.cause"),
        Column(name="family", kind="str", doc="family"),
        Column(name="domain", kind="str", doc="closed set Domain"),
        Column(name="status", kind="str", doc="closed set Status"),
        Column(name="confidence", kind="f64", doc="calibrated probability that the class is right"),
        Column(name="decided_by", kind="str", doc="rules, classifier, accounting, detector or order"),
        Column(name="root_signature", kind="str", doc="signature of the root line"),
        Column(name="root_path", kind="str", doc="file of the root line"),
        Column(name="root_line", kind="i64", doc="root line"),
        Column(name="root_text", kind="str", doc="root line, redacted"),
        Column(name="root_time_s", kind="f64", doc="time of the root line"),
        Column(name="culprit_nodes", kind="list[str]", doc="nodes to blame"),
        Column(name="culprit_ranks", kind="list[str]", doc="ranks to blame"),
        Column(name="culprit_gpus", kind="list[str]", doc="GPUs to blame"),
        Column(name="fingerprint", kind="str", doc="root without volatile parts"),
        Column(name="entity", kind="str", doc="thing affected: checkpoint path, data position"),
        Column(name="signals", kind="list[str]", doc="facts beside the class"),
        Column(name="document", kind="json", doc="recovery.diagnosis/1, whole"),
    ),
    "advice": (
        *_WHO,
        Column(name="advice_id", kind="str", doc="id, stable for the same attempt, diagnosis and policy"),
        Column(name="generation", kind="i64", doc="a higher one supersedes"),
        Column(name="action", kind="str", doc="closed set Action"),
        Column(name="exclude_nodes", kind="list[str]", doc="nodes that the retry should avoid"),
        Column(name="reason_code", kind="str", doc="policy row that decided"),
        Column(name="reason", kind="str", doc="in words"),
        Column(name="limits", kind="list[str]", doc="guard rails that weakened the action"),
        Column(name="issued_at_s", kind="f64", doc="when"),
        Column(name="valid_until_s", kind="f64", doc="expiry"),
        Column(name="policy", kind="str", doc="policy name"),
        Column(name="policy_digest", kind="str", doc="digest of the policy"),
        Column(name="document", kind="json", doc="Advice, whole"),
    ),
    "labels": (
        *_WHO,
        Column(
            name="field",
            kind="str",
            doc="what is labelled: outcome, class, root_line, culprit_node, culprit_rank, action, note",
        ),
        Column(name="value", kind="str", doc="what it is; the newest label of a field counts"),
        Column(name="by", kind="str", doc="person:NAME, or what the label was taken from, as outcome:progress"),
        Column(name="labelled_at_s", kind="f64", doc="when it was given, seconds since the epoch"),
    ),
}
