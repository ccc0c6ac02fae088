"""Advice + World -> Steps: makes the scheduler show what the Advice asks for, or says why it does not.

`plan` is pure; `Reconciler.tick` is one round; the `Ledger` remembers what was meant, what was answered and how every
Advice stands. docs/explanation/reconcile.md tells the rules and why they are so.
"""

from attribution.reconcile.ledger import Ledger, read_ledger
from attribution.reconcile.planning import plan
from attribution.reconcile.terms import Event, LedgerEntry, Limits, Mode, Reason, Verdict
from attribution.reconcile.tick import Reconciler, Round

__all__ = [
    "Event",
    "Ledger",
    "LedgerEntry",
    "Limits",
    "Mode",
    "Reason",
    "Reconciler",
    "Round",
    "Verdict",
    "plan",
    "read_ledger",
]
