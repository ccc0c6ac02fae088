"""What a job's comment asks for: opting in, and which policy. Malformed comments are reported, never guessed.

Two forms are understood, both JSON: ours, ``{"recovery": {"act": true, "policy": "default", "max_restarts": 5}}``, and
NVIDIA AJR's, ``{"APS": {"auto_resume_mode": "requeue", "max_requeue_times": 3}}``. The comment is written by the job's
owner, so it may opt in, choose among policies that an operator approved, and lower limits; it can raise nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

#: Longer comments are refused unread.
LONGEST = 16_384
_NAME = re.compile(r"^[A-Za-z0-9][\w.-]{0,63}$", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptIn:
    """What the comment says. `problem` is set where it cannot be understood; nothing else counts then."""

    act: bool = False
    policy: str | None = None
    max_restarts: int | None = None
    problem: str | None = None

    @property
    def opted_in(self) -> bool:
        """True where the comment is understood and asks for action."""
        return self.act and self.problem is None


def parse_comment(comment: str | None) -> OptIn:
    """The opt-in of a Slurm job comment. A comment that speaks of something else opts in to nothing."""
    if not comment or not comment.strip():
        return OptIn()
    if len(comment) > LONGEST:
        return OptIn(problem=f"comment of {len(comment)} characters, {LONGEST} are the most that is read")
    text = comment.strip()
    if not text.startswith("{"):
        return OptIn()
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        return OptIn(problem=f"comment is no JSON: {error}")
    if not isinstance(raw, dict):
        return OptIn(problem="comment is JSON, but no object")
    if "recovery" in raw:
        return _own(raw["recovery"])
    if "APS" in raw:
        return _ajr(raw["APS"])
    return OptIn()


def _count(value: Any, name: str) -> tuple[int | None, str | None]:
    if value is None:
        return None, None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10_000:
        return None, f"{name} is {value!r}, a whole number from 0 to 10000 is understood"
    return value, None


def _own(raw: Any) -> OptIn:
    if not isinstance(raw, dict):
        return OptIn(problem="recovery is no object")
    unknown = sorted(set(raw) - {"act", "policy", "max_restarts"})
    if unknown:
        return OptIn(problem=f"unknown keys in recovery: {', '.join(map(str, unknown))[:100]}")
    act, policy = raw.get("act", True), raw.get("policy")
    if not isinstance(act, bool):
        return OptIn(problem=f"act is {act!r}, true or false is understood")
    if policy is not None and not (isinstance(policy, str) and _NAME.match(policy)):
        return OptIn(problem="policy is no name of a policy")
    restarts, problem = _count(raw.get("max_restarts"), "max_restarts")
    return OptIn(problem=problem) if problem else OptIn(act=act, policy=policy, max_restarts=restarts)


def _ajr(raw: Any) -> OptIn:
    if not isinstance(raw, dict):
        return OptIn(problem="APS is no object")
    mode = raw.get("auto_resume_mode")
    if mode not in ("requeue", "none", None):
        return OptIn(problem=f"auto_resume_mode is {str(mode)[:60]!r}, requeue or none is understood")
    restarts, problem = _count(raw.get("max_requeue_times"), "max_requeue_times")
    return OptIn(problem=problem) if problem else OptIn(act=mode == "requeue", max_restarts=restarts)
