"""Secrets out of log text before it is stored or shown.

Runs on the few lines that are kept, never on whole logs. What is replaced leaves a mark that says what it was, so that a
reader knows that something stood there. Digests, pointers, PCI addresses and commit hashes stay.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import partial


class Level(StrEnum):
    """How much is taken out."""

    NONE = "none"
    SECRETS = "secrets"
    PERSONAL = "personal"  # user names in home paths as well


#: (what it is, pattern). The group ``keep``, where there is one, stays in front of the mark.
_SECRETS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.ASCII))
    for name, pattern in (
        ("private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----|[\s\S]*)"),
        ("aws key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
        (
            "aws secret",
            r"(?P<keep>(?i:aws_secret_access_key|aws_session_token)[\"']?\s*[=:]\s*[\"']?)[A-Za-z0-9/+=]{16,}",
        ),
        ("hub token", r"\bhf_[A-Za-z0-9]{20,}\b"),
        ("github token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})\b"),
        ("gitlab token", r"\bglpat-[A-Za-z0-9_-]{16,}"),
        ("slack token", r"\bxox[abposr]-[A-Za-z0-9-]{10,}"),
        ("slack hook", r"(?P<keep>hooks\.slack\.com/services/)[A-Za-z0-9/]{10,}"),
        ("api key", r"\bsk-(?:[a-z]+-)?[A-Za-z0-9_-]{20,}"),
        ("google key", r"\bAIza[A-Za-z0-9_-]{30,}"),
        ("pypi token", r"\bpypi-[A-Za-z0-9_-]{20,}"),
        ("npm token", r"\bnpm_[A-Za-z0-9]{30,}\b"),
        ("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
        ("bearer token", r"(?P<keep>(?i:bearer|basic)\s+)(?=[A-Za-z0-9._~+/-]*\d)[A-Za-z0-9._~+/-]{16,}=*"),
        ("wandb key", r"(?P<keep>(?i:wandb)[\w ]{0,20}(?i:key)[\"']?\s*[=:]\s*[\"']?)[A-Za-z0-9_-]{20,}"),
        ("credentials", r"(?P<keep>\b[a-z][a-z0-9+.-]{1,20}://)[^\s/@:'\"]{1,256}:[^\s/@'\"]{1,256}(?=@)"),
        (
            "secret",
            r"(?P<keep>\b[\w.-]{0,40}(?i:passw(?:or)?d|passwd|secret|token|api_?key|access_?key|auth_?key|private_?key|license_?key)"
            r"[\"']?\s*(?:=|:)\s*[\"']?)(?!\[)(?!(?:None|null|true|false|\*+|<\w+>)\b)(?=\S{0,200}[A-Za-z])[^\s\"',;}{)\]]{6,512}",
        ),
        ("e-mail", r"\b[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"),
    )
)
#: Words one of which every secret's line holds: the cheap test before the patterns run.
_HINT = re.compile(
    r"PRIVATE KEY|AKIA|ASIA|aws_|hf_|gh[pousr]_|github_pat|glpat|xox|hooks\.slack|sk-|AIza|pypi-|npm_|eyJ|earer|asic |wandb|://"
    r"|passw|secret|token|key|@",
    re.IGNORECASE,
)
#: Settings of tokenizers and models whose names only look like secrets.
_HARMLESS = re.compile(
    r"(?i)(?:num|max|min|n|total|pad|eos|bos|unk|mask|per|special|vocab|new|seen|prompt|train|consumed|batch|key)[_ ]?tokens?\b"
    r"|token(?:s|izer|ization|_id|_ids|_type|_count|_drop)|keys?\(|key ?error|missing key|unexpected key"
)
_HOME = re.compile(r"(?P<keep>/(?:home|Users|users|u)/)(?!\[)[A-Za-z0-9._-]{2,64}(?=/|\b)")


def redact(text: str, *, level: Level = Level.SECRETS) -> str:
    """`text` without secrets. Applying it twice changes nothing more.

    >>> redact("export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz")
    'export HF_TOKEN=[hub token]'
    """
    if level is Level.NONE:
        return text
    if _HINT.search(text):
        for name, pattern in _SECRETS:
            text = pattern.sub(partial(_mark, name), text)
    if level is Level.PERSONAL:
        text = _HOME.sub(lambda m: f"{m['keep']}[user]", text)
    return text


def _mark(name: str, found: re.Match[str]) -> str:
    keep = found.groupdict().get("keep") or ""
    if name == "secret" and _HARMLESS.search(keep):
        return found.group()
    return f"{keep}[{name}]"
