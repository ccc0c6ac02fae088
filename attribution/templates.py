"""Lines -> template ids and counts; the only importer of drain3.

Three steps, each on fewer things than the one before. *Shapes*: per block, digits are squeezed and equal lines counted
with Arrow (no Python per line). *Masks*: only distinct shapes are masked, by Polars' Rust regular expressions. *Drain*:
only distinct masked lines are mined, sorted, each once with its count.

Counting adds exactly and mining reads a sorted set, so templates and counts depend neither on the order of files nor on
how the work was cut. Ids are given at birth from a stored table; the tree is rebuilt from that table, never from a pickle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attribution.sources.blocks import Block

#: Bytes squeezed and counted at a time: what fits the second-level cache.
PIECE = 256 * 1024
#: Lines are cut here for mining.
LONGEST = 2_000
#: Distinct shapes of one attempt that are kept; lines beyond count as `OTHER`.
MOST_SHAPES = 200_000
#: Templates that one mining keeps; beyond, drain3 lets the least used go.
MOST_TEMPLATES = 20_000
OTHER = b"<other>"

_SQUEEZE = bytes.maketrans(b"123456789\r", b"000000000\n")


@dataclass(slots=True)
class Shape:
    """Lines that are equal but for digits: how many, and the first of them (1-based line in its file)."""

    count: int
    first_line: int
    exemplar: bytes
    path: str = ""


@dataclass(slots=True)
class ShapeCounts:
    """Shapes of a file or of an attempt. `lines` counts all lines, blank ones left out."""

    shapes: dict[bytes, Shape] = field(default_factory=dict)
    lines: int = 0

    @staticmethod
    def merged(many: Iterable[ShapeCounts]) -> ShapeCounts:
        """The sum: counts add, the exemplar is the smallest by (path, line), so that order does not matter."""
        out = ShapeCounts()
        for counts in many:
            out.lines += counts.lines
            for key, shape in counts.shapes.items():
                old = out.shapes.get(key)
                if old is None:
                    out.shapes[key] = replace(shape)
                    continue
                if (shape.path, shape.first_line) < (old.path, old.first_line):
                    old.path, old.first_line, old.exemplar = shape.path, shape.first_line, shape.exemplar
                old.count += shape.count
        return out


class ShapeCounter:
    """Counts the shapes of one file, block by block."""

    def __init__(self, path: str = "") -> None:
        self._path = path
        self._counts = ShapeCounts()
        self._other = 0

    def feed(self, block: Block) -> None:
        """Count the lines of one block."""
        data = bytes(block.data)
        line = block.first_line
        at = 0
        while at < len(data):
            end = data.rfind(b"\n", at, at + PIECE) + 1
            if end <= at:
                end = data.find(b"\n", at) + 1 or len(data)
            piece = data[at:end]
            self._piece(piece, line)
            line += piece.count(b"\n")
            at = end

    def _piece(self, raw: bytes, first_line: int) -> None:
        squeezed, kept = _squeeze(raw)
        ends = np.flatnonzero(squeezed == 10)
        if not len(ends) or ends[-1] != len(squeezed) - 1:
            ends = np.append(ends, len(squeezed))
        starts = np.concatenate((np.zeros(1, dtype=np.int64), ends[:-1] + 1))
        lengths = np.minimum(ends - starts, LONGEST)
        full = lengths > 0
        starts, lengths, ends = starts[full], lengths[full], ends[full]
        if not len(starts):
            return
        keys = _binary(squeezed.tobytes(), starts, ends, lengths)
        self._counts.lines += len(keys)
        encoded = keys.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        # Codes are given in order of appearance, so the first place of a code is where it is greater than all before.
        firsts = np.unique(codes, return_index=True)[1]
        totals = np.bincount(codes)
        fresh = _Origins(raw, kept, first_line)
        for key, count, at in zip(encoded.dictionary.to_pylist(), totals.tolist(), starts[firsts].tolist(), strict=True):
            self._add(key, count, at, fresh)

    def _add(self, key: bytes, count: int, at: int, origins: _Origins) -> None:
        shapes = self._counts.shapes
        old = shapes.get(key)
        if old is not None:
            old.count += count
        elif len(shapes) < MOST_SHAPES:
            line, exemplar = origins.line(at)
            shapes[key] = Shape(count=count, first_line=line, exemplar=exemplar, path=self._path)
        else:
            line, _ = origins.line(at)
            shapes.setdefault(OTHER, Shape(count=0, first_line=line, exemplar=OTHER, path=self._path)).count += count

    def counts(self) -> ShapeCounts:
        """What was counted so far."""
        return self._counts


def _squeeze(raw: bytes) -> tuple[np.ndarray, np.ndarray | None]:
    """Digits to 0 and runs of 0 to one; positions of the kept bytes, None where all were kept."""
    flat = np.frombuffer(raw.translate(_SQUEEZE), dtype=np.uint8)
    zero = flat == 48
    run = zero[1:] & zero[:-1]
    if not run.any():
        return flat, None
    kept = np.flatnonzero(np.concatenate((np.ones(1, dtype=bool), ~run)))
    return flat[kept], kept


class _Origins:
    """From a place in the squeezed bytes back to the raw line: its number and its text."""

    def __init__(self, raw: bytes, kept: np.ndarray | None, first_line: int) -> None:
        self._raw, self._kept, self._first_line = raw, kept, first_line
        self._ends: np.ndarray | None = None

    def line(self, at: int) -> tuple[int, bytes]:
        """1-based line number and the raw bytes of the segment that starts at `at`."""
        if self._ends is None:
            self._ends = np.flatnonzero(np.frombuffer(self._raw, dtype=np.uint8) == 10)
        start = int(self._kept[at]) if self._kept is not None else at
        end = self._raw.find(b"\n", start)
        stop = len(self._raw) if end < 0 else end
        bar = self._raw.find(b"\r", start, stop)
        stop = bar if bar > start else stop
        line = self._first_line + int(np.searchsorted(self._ends, start))
        return line, self._raw[start : min(stop, start + LONGEST)]


def _binary(buffer: bytes, starts: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> pa.Array:
    """Lines as an Arrow array: a view of the buffer where nothing is cut and no blank line lies between."""
    adjacent = len(starts) == 1 or bool((starts[1:] == ends[:-1] + 1).all())
    if adjacent and bool((lengths == ends - starts).all()) and int(ends[-1]) < len(buffer):
        # Offsets of neighbours must meet, so each line keeps its line end until it is sliced off.
        offsets = np.append(starts, int(ends[-1]) + 1).astype(np.int32)
        lines = pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(buffer)])
        return pc.binary_replace_slice(lines, start=-1, stop=2**31 - 1, replacement=b"")
    pieces = [buffer[s : s + n] for s, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
    return pa.array(pieces, type=pa.binary())


@dataclass(frozen=True, slots=True)
class Masked:
    """One masked line of an attempt: how many lines it stands for, and the first of them."""

    count: int
    path: str
    first_line: int
    exemplar: str


#: Masks in order; Rust's syntax, no look-around. Prefixes go first, so that ranks share templates.
MASKS: tuple[tuple[str, str], ...] = (
    (r"\x1b\[[0-9;?]*[A-Za-z]", ""),
    (r"^(?:\s*\d+: ?|\[rank ?\d+\]:? ?|\[[A-Za-z_]+\d+\]: ?|\[\d+,\d+\]<std\w+>: ?|\(\w+ pid=\d+[^)]*\) ?)+", ""),
    (r"\d+[-/]\d+[-/]\d+[T ]\d+:\d+:\d+(?:[.,]\d+)?(?:Z|[+-]\d+:?\d*)?", "<TIME>"),
    (r"\b\d+:\d+:\d+(?:[.,]\d+)?\b", "<TIME>"),
    (r"\b[0-9a-fA-F]+(?:-[0-9a-fA-F]+){4}\b", "<UUID>"),
    (r"\b\d+\.\d+\.\d+\.\d+(?:[:<]\d+>?)?", "<IP>"),
    (r"0x[0-9a-fA-F]+", "<HEX>"),
    (r"(?:/[\w.+@=-]+){2,}/?", "<PATH>"),
    (r"\b[0-9a-f]*\d[0-9a-f]*\b", "<NUM>"),
    (r"[-+]?<NUM>(?:\.<NUM>)?(?:[eE][-+]?<NUM>)?", "<NUM>"),
    (r"\d+", "<NUM>"),
    (r"[ \t]+", " "),
)


def mask(counts: ShapeCounts) -> dict[str, Masked]:
    """Masked lines of an attempt, in sorted order. Shapes that mask alike add up; the first exemplar stays."""
    import polars as pl

    if not counts.shapes:
        return {}
    keys = list(counts.shapes)
    column = pl.Series([k.decode("utf-8", "replace") for k in keys])
    for pattern, word in MASKS:
        column = column.str.replace_all(pattern, word)
    out: dict[str, Masked] = {}
    for text, key in zip(column.str.strip_chars().to_list(), keys, strict=True):
        shape = counts.shapes[key]
        old = out.get(text)
        if old is None:
            out[text] = Masked(shape.count, shape.path, shape.first_line, _text(shape))
        elif (shape.path, shape.first_line) < (old.path, old.first_line):
            out[text] = Masked(old.count + shape.count, shape.path, shape.first_line, _text(shape))
        else:
            out[text] = replace(old, count=old.count + shape.count)
    return dict(sorted(out.items()))


def _text(shape: Shape) -> str:
    return shape.exemplar.decode("utf-8", "replace")


@dataclass(slots=True)
class Template:
    """A template: `id` is given at birth, `text` may still generalise."""

    id: int
    text: str
    exemplar: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateCount:
    """Lines of one template in one attempt."""

    template_id: int
    count: int
    path: str
    first_line: int


class Miner:
    """A Drain tree over masked lines, rebuilt from a table of templates.

    Args:
        known: templates of the store, any order; their ids stay theirs.
    """

    def __init__(self, known: Iterable[Template] = ()) -> None:
        from drain3 import TemplateMiner
        from drain3.template_miner_config import TemplateMinerConfig

        config = TemplateMinerConfig()  # never from a file: drain3 would read one from the working folder
        config.drain_sim_th = 0.5
        config.drain_depth = 4
        config.drain_max_children = 128
        config.drain_max_clusters = MOST_TEMPLATES
        config.parametrize_numeric_tokens = True
        config.masking_instructions = []
        self._miner = TemplateMiner(config=config)
        self._by_cluster: dict[int, int] = {}
        self._next = 1
        self.templates: dict[int, Template] = {}
        self.changed: set[int] = set()
        self._memory: dict[str, int] = {}
        for t in sorted(known, key=lambda t: t.id):
            cluster, _ = self._miner.drain.add_log_message(t.text)
            self._by_cluster.setdefault(cluster.cluster_id, t.id)
            self.templates[t.id] = t
            self._next = max(self._next, t.id + 1)

    def mine(self, attempts: Mapping[str, Mapping[str, Masked]]) -> dict[str, list[TemplateCount]]:
        """Template counts per attempt. All masked lines are mined together, sorted, before anything is counted."""
        lines: dict[str, Masked] = {}
        for masked in attempts.values():
            for text, m in masked.items():
                lines.setdefault(text, m)
        for text in sorted(lines):
            if text not in self._memory:
                self._memory[text] = self._learn(text, lines[text])
        return {attempt: self._counts(masked) for attempt, masked in attempts.items()}

    def _learn(self, text: str, m: Masked) -> int:
        cluster, change = self._miner.drain.add_log_message(text or "<blank>")
        known = self._by_cluster.get(cluster.cluster_id)
        if known is None:
            known = self._next
            self._next += 1
            self._by_cluster[cluster.cluster_id] = known
            self.templates[known] = Template(id=known, text="", exemplar=m.exemplar)
        if change != "none" or not self.templates[known].text:
            self.templates[known].text = cluster.get_template()
            self.changed.add(known)
        return known

    def _counts(self, masked: Mapping[str, Masked]) -> list[TemplateCount]:
        out: dict[int, TemplateCount] = {}
        for text, m in masked.items():
            known = self._memory[text]
            old = out.get(known)
            if old is None:
                out[known] = TemplateCount(template_id=known, count=m.count, path=m.path, first_line=m.first_line)
            else:
                first = min((old.path, old.first_line), (m.path, m.first_line))
                out[known] = TemplateCount(
                    template_id=known, count=old.count + m.count, path=first[0], first_line=first[1]
                )
            self.templates[known].count += m.count
        return [out[t] for t in sorted(out)]
