"""The ledger survives what happens to files and processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from attribution.model import Disposition, StoreError
from attribution.reconcile import Event, Ledger, LedgerEntry, Mode, Reason, read_ledger
from attribution.reconcile.ledger import FILE
from attribution.schedulers.base import ReplyKind, StepKind

ENTRY = LedgerEntry(
    seq=0,
    time_s=1.5,
    event=Event.RESULT,
    mode=Mode.ACT,
    advice_id="adv-1",
    attempt="lab/7@1796000000.0",
    generation=2,
    step=StepKind.UPDATE_CONSTRAINTS,
    subject="7",
    exclude=("gpu-001",),
    reply=ReplyKind.ACCEPTED,
    intent=1,
    disposition=Disposition.PENDING,
    reason=Reason.SETTLING,
    text="Exit \u2028 \n code",
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        first, second = ledger.append(ENTRY), ledger.append(ENTRY)
    assert (first.seq, second.seq) == (1, 2)
    assert list(read_ledger(tmp_path)) == [first, second]
    with Ledger(tmp_path) as ledger:
        assert ledger.append(ENTRY).seq == 3
        assert [e.seq for e in ledger.about("adv-1")] == [1, 2, 3]
        assert len(ledger.of({ENTRY.attempt})) == 3 and not ledger.of({"another"})


@pytest.mark.parametrize("cut", [1, 5, 40, 200])
def test_a_half_written_last_line_is_cut_off(tmp_path: Path, cut: int) -> None:
    with Ledger(tmp_path) as ledger:
        first = ledger.append(ENTRY)
        ledger.append(ENTRY)
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(read_ledger(tmp_path)) == [first], "readers skip it"
    with Ledger(tmp_path) as ledger:
        assert ledger.append(ENTRY).seq == 2
    assert [e.seq for e in read_ledger(tmp_path)] == [1, 2]


def test_a_long_half_line_without_any_line_end(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"x" * 10_000)
    with Ledger(tmp_path) as ledger:
        assert ledger.append(ENTRY).seq == 1


def test_damage_in_the_middle_is_not_passed_over(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.append(ENTRY)
    path = tmp_path / FILE
    path.write_bytes(b'{"seq": 0}\n' + path.read_bytes())
    with pytest.raises(StoreError, match=r"ledger.jsonl:1: not a ledger line"):
        list(read_ledger(tmp_path))
    with pytest.raises(StoreError):
        Ledger(tmp_path)


def test_one_writer(tmp_path: Path) -> None:
    with Ledger(tmp_path), pytest.raises(StoreError, match="another reconciler"):
        Ledger(tmp_path)
    Ledger(tmp_path).close()


def test_no_ledger_is_an_empty_one(tmp_path: Path) -> None:
    assert list(read_ledger(tmp_path)) == []


def test_an_entry_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    """The writer is killed (SIGKILL) while it appends as fast as it can; every line it told of is there."""
    code = (
        "import sys; from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from test_reconcile_ledger import ENTRY\n"
        "from attribution.reconcile import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1]))\n"
        "while True: print(ledger.append(ENTRY).seq, flush=True)\n"
    )
    args = [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(args, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(50)]
        os.kill(child.pid, signal.SIGKILL)
        told += [int(line) for line in child.stdout.read().splitlines() if line]
    assert [e.seq for e in read_ledger(tmp_path)][: len(told)] == told
    with Ledger(tmp_path) as ledger:
        assert ledger.append(ENTRY).seq >= told[-1] + 1
