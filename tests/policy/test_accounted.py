"""What accounting knows of attempts that left no log."""

from __future__ import annotations

from attribution.model import Outcome
from attribution.policy import load_policy
from attribution.policy.accounted import with_accounting
from attribution.policy.past import Became, chains, records, successor
from attribution.policy.replay import replay
from attribution.sources.accounting import parse_accounting
from tests.make import analyzer
from tests.policy.make import frame, row

SACCT = (
    b"JobID|JobName|User|Partition|State|ExitCode|NodeList|Submit|Start|End|Restarts\n"
    b"4242|train|al|main|NODE_FAIL|1:0|gpu-[001-002]|1970-01-01T00:16:40|1970-01-01T00:16:40|1970-01-01T01:16:40|0\n"
    b"4242|train|al|main|COMPLETED|0:0|gpu-[001,003]|1970-01-01T01:20:00|1970-01-01T01:21:40|1970-01-01T09:21:40|1\n"
    b"7777|other|al|main|COMPLETED|0:0|gpu-009|1970-01-01T01:20:00|1970-01-01T01:21:40|1970-01-01T09:21:40|0\n"
)


def test_a_successor_without_a_log_is_told_by_accounting() -> None:
    found = with_accounting(records(frame(row(0))), parse_accounting(SACCT, name="sacct.txt"))
    (chain,) = chains(found)
    assert [r.diagnosis.outcome for r in chain] == [Outcome.FAILED, Outcome.COMPLETED]
    after = successor(chain[0], chain[1])
    assert (after.became, after.left_out) == (Became.PASSED_ELSEWHERE, ("gpu-002",))


def test_what_only_accounting_knows_is_not_judged_itself() -> None:
    failed = SACCT.replace(b"COMPLETED|0:0|gpu-[001,003]", b"FAILED|1:0|gpu-[001,003]")
    found = with_accounting(records(frame(row(0))), parse_accounting(failed, name="sacct.txt"))
    got = replay(found, load_policy(), taxonomy=analyzer().ruleset.taxonomy)
    assert (got.attempts, got.judged) == (1, 0)


def test_attempts_with_a_log_and_jobs_without_one_are_left_alone() -> None:
    found = records(frame(row(0), row(1)))
    assert with_accounting(found, parse_accounting(SACCT, name="sacct.txt")) == found
