"""Rule folders made of a few words."""

from __future__ import annotations

from pathlib import Path

import pytest

TAXONOMY = """\
comm:
  peer_lost: {domain: unknown, action: restart, means: a peer went away}
  collective_timeout: {domain: unknown, action: restart, means: a collective did not finish}
gpu_hw:
  off_bus: {domain: infrastructure, action: restart_excluding, means: the driver lost the device, alias: [xid_79]}
  driver_fault: {domain: infrastructure, action: restart_excluding, means: the driver failed}
gpu_program:
  illegal_memory_access: {domain: unknown, action: restart, means: illegal address}
"""

XID = """\
signatures:
  - id: kernel.xid.event
    title: Xid event
    class: gpu_hw.driver_fault
    role: root
    specificity: 60
    subject: gpu
    sources: [kernel_log]
    match:
      any:
        - 'NVRM: Xid \\(PCI:(?P<pci>[0-9a-fA-F:.]+)\\): (?P<xid>\\d+),'
    table: {name: xid, key: xid}
    explains:
      - {classes: [comm.*], scope: attempt, within_s: 1800}
    examples:
      - text: '[1834521.441276] NVRM: Xid (PCI:0000:38:00): 79, pid=2341, GPU has fallen off the bus.'
        fields: {pci: '0000:38:00', xid: '79'}
    counterexamples:
      - text: 'nvidia-smi: Xid errors: 0'
"""

TABLE = """\
table: xid
source: NVIDIA Xid catalogue
date: "2026-08"
rows:
  "79": {class: gpu_hw.off_bus, role: root, title: GPU has fallen off the bus, action: RESET_GPU, specificity: 90}
  "31": {class: gpu_program.illegal_memory_access, role: root, title: MMU fault}
  "92": {class: null, role: noise, title: high single-bit ECC error rate}
"""


class Folder:
    """A rules folder to which documents are added by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.add("taxonomy.yaml", TAXONOMY)

    def add(self, name: str, text: str) -> Folder:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return self

    def rule(self, **changes: str) -> Folder:
        """One rule in a file of its own: YAML values by field, over a sound default."""
        fields = {
            "id": "nccl.net.peer_reset",
            "title": "Peer reset",
            "class": "comm.peer_lost",
            "role": "root",
            "match": "{any: ['Connection reset by peer']}",
            "examples": "[{text: 'socket.cc:12 Connection reset by peer'}]",
            "counterexamples": "[{text: 'Connection established'}]",
        } | changes
        body = "\n    ".join(f"{k}: {v}" for k, v in fields.items() if v)
        return self.add(f"signatures/{fields['id']}.yaml", f"signatures:\n  - {body}\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Folder(tmp_path / "rules")


@pytest.fixture
def xid_folder(folder: Folder) -> Folder:
    return folder.add("signatures/kernel/xid.yaml", XID).add("tables/xid.yaml", TABLE)
