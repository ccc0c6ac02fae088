"""Planted secrets do not get through, and what only looks like one stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.redact import Level, redact

PLANTED = {
    "hub token": ("huggingface-cli login --token hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345", "hf_AbCd"),
    "aws key": ("AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AKIAIOSF"),
    "aws secret": ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrX"),
    "github token": ("remote: https://x ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_abc"),
    "jwt": ("auth eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N", "eyJhbG"),
    "bearer": ("Authorization: Bearer abcDEF0123456789abcDEF0123456789", "abcDEF0123"),
    "url": ("git clone https://alice:s3cretpass@git.example.com/x.git", "s3cretpass"),
    "password": ("db_password: 'hunter2hunter2'", "hunter2"),
    "wandb": ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "0123456789abcdef"),
    "mail": ("job owner alice.smith@example.com", "alice.smith@"),
    "slack": ("https://hooks.slack.com/services/T000/B000/XXXXXXXXXXXX", "B000"),
    "key": ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----", "MIIEp"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_secrets_go(name: str) -> None:
    text, secret = PLANTED[name]
    assert secret not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
        "consumed tokens: 123456789 | max_new_tokens=2048",
        "KeyError: 'labels'",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "digest sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "comm 0x7f3a1c000000 rank 17 nranks 64 cudaDev 3 busId 1a000 commId 0x5e1f - Init START",
        "tokenizer_type: GPT2BPETokenizer",
        'RuntimeError: Error(s) in loading state_dict: Missing key(s) in state_dict: "layer.weight"',
        "store tcp://10.0.0.1:29500",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_user_names_in_paths_go_on_request() -> None:
    path = "/home/alice/ckpt/step_100"
    assert redact(path) == path
    assert redact(path, level=Level.PERSONAL) == "/home/[user]/ckpt/step_100"


@given(st.text(max_size=300))
def test_twice_is_once_and_nothing_grows_without_bound(text: str) -> None:
    once = redact(text, level=Level.PERSONAL)
    assert redact(once, level=Level.PERSONAL) == once
    assert len(once) <= 3 * len(text) + 40
