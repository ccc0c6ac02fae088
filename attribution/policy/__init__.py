"""Diagnosis, history and limits -> Advice. Pure: the same arguments give the same advice."""

from attribution.policy.advise import advise, is_actionable
from attribution.policy.document import Policy, load_policy
from attribution.policy.history import Fleet, History, PastAttempt

__all__ = ["Fleet", "History", "PastAttempt", "Policy", "advise", "is_actionable", "load_policy"]
