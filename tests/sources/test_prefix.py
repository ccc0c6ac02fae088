"""Prefixes off, messages apart, places exact. Lines are real ones from public logs, shortened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attribution.model import Line, Source
from attribution.sources.discover import FileHints
from attribution.sources.prefix import KEEP, LineParser, unmerge


def parse(raw: str | bytes, **kw: object) -> list[Line]:
    data = raw.encode() if isinstance(raw, str) else raw
    return LineParser("x.log", Source.JOB_LOG, default_year=2025, **kw).parse(data, 7, 123)  # type: ignore[arg-type]


def texts(raw: str | bytes) -> list[str]:
    return [line.text for line in parse(raw)]


@pytest.mark.parametrize(
    ("raw", "text", "place"),
    [
        # srun -l, torch's own rank prefix, both, doubled, none
        ("  0: step 3", "step 3", {"task": 0}),
        ("13: srun: error: nid005189: task 159: Exited with exit code 2", "srun: error: nid005189: task 159: Exited with exit code 2", {"task": 13}),
        ("1: [rank1]: Traceback (most recent call last):", "Traceback (most recent call last):", {"task": 1, "rank": 1}),
        ("[rank2]:[rank2]: Traceback (most recent call last):", "Traceback (most recent call last):", {"rank": 2}),
        ('[rank1]:   File "/home/user/train.py", line 150', '  File "/home/user/train.py", line 150', {"rank": 1}),
        ("10:20:30 starting", "10:20:30 starting", {"task": None}),
        # torchrun, by role and by rank
        ("[default2]:Overriding: plugin = native_ops2", "Overriding: plugin = native_ops2", {"local_rank": 2}),
        ("[trainer3]: loss nan", "loss nan", {"local_rank": 3}),
        ("[1]: [rank1]: AssertionError: duplicate iteration ids", "AssertionError: duplicate iteration ids", {"rank": 1}),
        ("[1]:", "[1]:", {"rank": None}),
        # mpirun, Cray, PALS
        ("[1,13]<stderr>:failed to create cublas handle: X", "failed to create cublas handle: X", {"rank": 13}),
        ("[prterun-node7-99@1,2]<stdout>: hello", "hello", {"rank": 2}),
        ("Mon Feb 10 10:35:00 2025: [PE_1452]:inet_recv: unexpected socket EOF", "inet_recv: unexpected socket EOF", {"rank": 1452}),
        ("x3200c0s7b0n0.hsn.cm.sirius: rank 2 died from signal 6", "rank 2 died from signal 6", {"host": "x3200c0s7b0n0.hsn.cm.sirius"}),
        # Ray
        ("\x1b[36m(WorkerDict pid=123, ip=10.0.0.7)\x1b[0m ValueError: x", "ValueError: x", {"pid": 123, "host": "10.0.0.7"}),
        ("(raylet) Worker exit type: SYSTEM_ERROR", "Worker exit type: SYSTEM_ERROR", {}),
        ("(pid=625502) import pynvml", "import pynvml", {"pid": 625502}),
        # containers and compose
        ("2024-01-01T00:00:00.123456789Z stderr F CUDA error", "CUDA error", {"time_s": 1704067200.123456789}),
        ("trainer-1  | step 3", "step 3", {}),
        ("[pod/train-worker-0/pytorch] [rank3]: boom", "boom", {"rank": 3}),
        # journal, dmesg in its forms
        ("Nov 15 10:59:09 gpu-1 kernel: [ 1372.545636] NVRM: loading", "NVRM: loading", {"host": "gpu-1", "time_s": 1763204349.0}),
        ("2025-06-14T03:21:57+0200 gpu-1 kernel: NVRM: Xid", "NVRM: Xid", {"host": "gpu-1", "time_s": 1749864117.0}),
        ("[449410.332316] NVRM: Xid (PCI:0003:00:00): 74", "NVRM: Xid (PCI:0003:00:00): 74", {"time_s": None}),
        ("[Wed Jan 15 17:19:05 2025] LNetError: 4069:0:(lib-ptl.c:189) x", "LNetError: 4069:0:(lib-ptl.c:189) x", {"time_s": 1736961545.0}),
        ("kern  :err   : [   12.345678] NVRM: Xid", "NVRM: Xid", {}),
        # pdsh; a library is no host
        ("gpu-017: NVRM: Xid", "NVRM: Xid", {"host": "gpu-017"}),
        ("libcudart.so.11.0: cannot open shared object file", "libcudart.so.11.0: cannot open shared object file", {"host": None}),
        # loggers
        ("2024-05-01 12:00:00,123 - root - ERROR - boom", "boom", {"time_s": 1714564800.123}),
        ("2024-05-01 12:00:00.123 | ERROR    | mod.x:func:12 - boom", "boom", {"time_s": 1714564800.123}),
        ("ERROR:root:boom", "boom", {}),
        ("[2024-05-01 12:00:00,123] [INFO] [logging.py:12:log_dist] [Rank 3] step=1", "step=1", {"rank": 3}),
        ("[2026-09-10 09:23:00 TP1] Scheduler hit an exception: x", "Scheduler hit an exception: x", {"time_s": 1789032180.0}),
        # what signatures need stays
        ("cgpu08:14057:14063 [2] NCCL INFO comm 0x1 rank 2", "cgpu08:14057:14063 [2] NCCL INFO comm 0x1 rank 2", {"host": "cgpu08", "pid": 14057}),
        ("[rank3]:[E1229 20:29:13.156284896 ProcessGroupNCCL.cpp:1484] [PG ID 0] x", "[E1229 20:29:13.156284896 ProcessGroupNCCL.cpp:1484] [PG ID 0] x", {"rank": 3}),
        ("[2026-02-12T14:42:53.398] error: *** STEP 1.0 ON a CANCELLED ***", "error: *** STEP 1.0 ON a CANCELLED ***", {"time_s": 1770907373.398}),
        ("[1580334905.974657] [cgpu09:43649:0] debug.c:1105 UCX  DEBUG x", "[cgpu09:43649:0] debug.c:1105 UCX  DEBUG x", {"host": "cgpu09", "time_s": 1580334905.974657}),
        ("Sat Sep 28 16:38:50 2024", "Sat Sep 28 16:38:50 2024", {"time_s": 1727541530.0}),
    ],
)  # fmt: skip
def test_prefix(raw: str, text: str, place: dict[str, object]) -> None:
    (line,) = parse(raw)
    assert line.text == text
    assert {k: getattr(line.place, k) for k in place} == pytest.approx(place)
    assert (line.place.line, line.place.offset) == (7, 123)


def test_ray_repetitions_are_counted() -> None:
    (line,) = parse("(WorkerDict pid=9) NaN found\x1b[32m [repeated 5x across cluster]\x1b[0m")
    assert (line.text, line.count) == ("NaN found", 5)


def test_messages_glued_to_a_progress_bar_are_lines_of_their_own() -> None:
    bar = "Map:  28%|██▊       | 11000/39531 [00:01<00:05, 5568.59 examples/s]"
    raw = (
        f"\r{bar}\r{bar}slurmstepd: error: *** JOB 4242 ON gpu-3 CANCELLED AT 2025-06-14T03:21:57 DUE TO TIME LIMIT ***"
    )
    assert texts(raw)[-1].startswith("slurmstepd: error: *** JOB 4242 ON gpu-3 CANCELLED")
    assert texts(f"{bar}[rank0]: Traceback (most recent call last):")[1:] == ["Traceback (most recent call last):"]
    assert parse(f"{bar}[rank0]: Traceback (most recent call last):")[1].place.rank == 0
    assert texts(
        "train:   0%| | 0/3104 [00:00<?, ?it/s]x3200c0s19b0n0:3134105:3134105 [2] NCCL INFO cudaDriverVersion 12020"
    )[1:] == ["x3200c0s19b0n0:3134105:3134105 [2] NCCL INFO cudaDriverVersion 12020"]


def test_a_prefix_in_front_of_a_message_is_no_message() -> None:
    assert texts("slurmstepd: error: *** STEP 1.0 ON a CANCELLED AT 2025-06-14T03:21:57 ***") == [
        "slurmstepd: error: *** STEP 1.0 ON a CANCELLED AT 2025-06-14T03:21:57 ***"
    ]
    assert texts("[rank0]: Traceback (most recent call last):") == ["Traceback (most recent call last):"]


def test_a_message_among_a_thousand_bars_is_kept() -> None:
    bars = [f"{i}%|###| {i}/1000 [00:01<00:05, 5.5it/s]" for i in range(1000)]
    bars[500] = "RuntimeError: CUDA error: an illegal memory access was encountered"
    found = texts("\r".join(bars))
    assert bars[500] in found
    assert len(found) < 100


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("ImportErrorImportError: : libcudart.so.11.0: cannot open", "ImportError: libcudart.so.11.0: cannot open"),
        (
            "torch.cudatorch.cuda.torch.cuda.OutOfMemoryErrortorch.cudaOutOfMemoryError.: .: OutOfMemoryErrorCUDA out of memory. Tried",
            "OutOfMemoryError: CUDA out of memory. Tried",
        ),
        ("KeyError: Caught KeyError in DataLoader worker process 2.", None),
        ("c10::DistError::DistError(c10::SourceLocation, std::string)", None),
        ("ValueError: bad", None),
    ],
)
def test_words_of_several_ranks_are_unmerged(text: str, plain: str | None) -> None:
    assert unmerge(text) == plain
    assert [line.text for line in parse(text)][1:] == ([plain] if plain else [])


def test_json_lines_give_message_exception_rank_and_time() -> None:
    raw = r'{"time": "2025-06-14T03:21:57Z", "level": "error", "rank": 3, "host": "gpu-1", "message": "step failed", "exc_info": "Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: bad"}'
    lines = parse(raw)
    assert [x.text for x in lines] == [
        "step failed",
        "Traceback (most recent call last):",
        '  File "a.py", line 1',
        "ValueError: bad",
    ]
    assert {(x.place.rank, x.place.host, x.place.time_s, x.place.line) for x in lines} == {
        (3, "gpu-1", 1749871317.0, 7)
    }


def test_json_events_keep_their_fields() -> None:
    raw = '{"ts": 1796103755.782, "level": "info", "rank": 1, "event": "step", "iter": 0, "param_norm": 171.4751}'
    (line,) = parse(raw)
    assert (line.text, line.place.rank, line.place.time_s) == (raw, 1, 1796103755.782)


def test_docker_json_file_lines_are_read_through() -> None:
    (line,) = parse(r'{"log":"[rank1]: ValueError: bad\n","stream":"stderr","time":"2025-06-14T03:21:57.5Z"}')
    assert (line.text, line.place.rank, line.place.time_s) == ("ValueError: bad", 1, 1749871317.5)


def test_lines_without_a_stamp_get_the_time_before_and_years_come_from_neighbours() -> None:
    parser = LineParser("x", Source.JOB_LOG, default_year=2026)
    parser.parse(b"Sun Dec 29 17:58:42 2024", 1, 0)
    (glog,) = parser.parse(b"[E1229 20:29:13.156284896 x.cpp:1] boom", 2, 25)
    assert glog.place.time_s == pytest.approx(1735504153.156284896)
    (bare,) = parser.parse(b"Killed", 3, 60)
    assert bare.place.time_s == glog.place.time_s
    parser.parse(b"2030-01-01 00:00:00 later", 4, 70, remember=False)
    assert parser.last_time_s == glog.place.time_s


def test_the_file_name_speaks_where_the_line_does_not() -> None:
    hints = FileHints(rank=5, node="gpu-9")
    assert parse("boom", hints=hints)[0].place.rank == 5
    assert parse("[rank2]: boom", hints=hints)[0].place.rank == 2


def test_kernel_time_is_dated_by_the_boot() -> None:
    parser = LineParser("dmesg", Source.KERNEL_LOG, hints=FileHints(boot_s=1_749_871_315.0))
    assert parser.parse(b"[   10.500000] NVRM: Xid", 1, 0)[0].place.time_s == 1_749_871_325.5


def test_a_line_of_ten_megabytes_is_bounded_and_keeps_both_ends() -> None:
    (line,) = parse(b"begin " + b"x" * 10_000_000 + b" end")
    assert len(line.text) < 3 * KEEP
    assert line.text.startswith("begin") and line.text.endswith("end")


def test_control_codes_and_bad_bytes_are_harmless() -> None:
    assert texts(b"\x00\x00\x1b[31mcaf\xe9\x07 boom\x1b[0m") == ["caf\ufffd boom"]


@given(st.binary(max_size=300))
def test_any_bytes_are_parsed(raw: bytes) -> None:
    for line in parse(raw.replace(b"\n", b"")):
        assert (line.place.line, line.place.offset) == (7, 123)
        assert "\x1b[" not in line.text
        assert "\n" not in line.raw


SHAPES = ["0: ", "[rank3]: ", "[default1]:", "[1,2]<stderr>:", "(A pid=1) ", "2024-05-01 12:00:00 - a - INFO - ", "{", "}", "\r", "Traceback (most recent call last):", "[E1229 20:29:13.1 ", "Error", "[", "99%|", '"msg": "x"', " [repeated 9x across cluster]"]  # fmt: skip


@given(st.lists(st.sampled_from(SHAPES), max_size=14))
def test_any_stack_of_prefixes_is_parsed(parts: list[str]) -> None:
    for line in parse("".join(parts)):
        assert len(line.text) <= len("".join(parts)) + 20


@pytest.mark.parametrize(
    "piece",
    ["[2025061403] ", "error: ", "gpu1", "slurmstepd-", "(a pid=", "[rank", "1: ", "\x1b[0", "ImportError", "x - ", "a.b:12:", "slurmstepd: error: ", "[2025-06-14T03:21:57] error: ", "  "],
)  # fmt: skip
def test_hostile_lines_cost_no_more_than_their_length(piece: str) -> None:
    import time

    raw = (piece * (32_000 // len(piece)) + "Traceback (most recent call last):").encode()
    begun = time.process_time()
    parse(raw)
    parse(raw + b" [repeated 3x across cluster]")
    assert time.process_time() - begun < 0.5
