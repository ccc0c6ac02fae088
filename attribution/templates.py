"""Lines -> template ids and counts; the only importer of drain3.

Three steps, each on fewer things than the one before. *Shapes* (`attribution.shapes`): digits squeezed, equal lines
counted. *Masks*: only distinct shapes are masked, by Polars' Rust regular expressions. *Drain*:
only distinct masked lines are mined, sorted, each once with its count.

Counting adds exactly and mining reads a sorted set, so templates and counts depend neither on the order of files nor on
how the work was cut. Ids are given at birth from a stored table; the tree is rebuilt from that table, never from a pickle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from attribution.shapes import Shape, ShapeCounts

#: Templates that one mining keeps; beyond, drain3 lets the least used go.
MOST_TEMPLATES = 20_000
#: Drain compares a line with all templates of its length and first word. Beyond so many of them, lines that are like none
#: are `UNLIKE`, one template for all (a log may hold a megabyte of base64), and after so many such lines nobody looks.
MOST_ALIKE = 512
MOST_LOOKS = 2_000
UNLIKE = "<*>"
#: Masked lines whose template a miner remembers from one unit of work to the next.
MOST_REMEMBERED = 1_000_000


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


def masked(keys: Sequence[bytes]) -> list[str]:
    """Shapes with what varies replaced by words, in the order given."""
    import polars as pl

    column = pl.Series("key", [k.decode("utf-8", "replace") for k in keys], dtype=pl.String)
    masks = pl.col("key")
    for pattern, word in MASKS:
        masks = masks.str.replace_all(pattern, word)
    out: list[str] = column.to_frame().select(masks.str.strip_chars()).to_series().to_list()
    return out


def mask(counts: ShapeCounts) -> dict[str, Masked]:
    """Masked lines of an attempt, in sorted order. Shapes that mask alike add up; the first exemplar stays."""
    keys = list(counts.shapes)
    out: dict[str, Masked] = {}
    for text, key in zip(masked(keys), keys, strict=True):
        shape = counts.shapes[key]
        old = out.get(text)
        if old is None:
            out[text] = Masked(shape.count, shape.path, shape.first_line, _text(shape))
        elif (shape.path, shape.first_line) < (old.path, old.first_line):
            out[text] = Masked(old.count + shape.count, shape.path, shape.first_line, _text(shape))
        else:
            out[text] = Masked(old.count + shape.count, old.path, old.first_line, old.exemplar)
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
        self._looks: Counter[int] = Counter()
        self._unlike: int | None = None
        for t in sorted(known, key=lambda t: t.id):
            if t.text == UNLIKE:
                self._unlike = t.id
            else:
                cluster, _ = self._miner.drain.add_log_message(t.text)
                self._by_cluster.setdefault(cluster.cluster_id, t.id)
            self.templates[t.id] = t
            self._next = max(self._next, t.id + 1)

    def mine(self, attempts: Mapping[str, Mapping[str, Masked]]) -> dict[str, list[TemplateCount]]:
        """Template counts per attempt. All masked lines are mined together, sorted, before anything is counted."""
        lines: dict[str, Masked] = {}
        for own in attempts.values():
            for text, m in own.items():
                lines.setdefault(text, m)
        if len(self._memory) > MOST_REMEMBERED:
            self._memory.clear()
        for text in sorted(lines):
            if text not in self._memory:
                self._memory[text] = self._learn(text, lines[text])
        return {attempt: self._counts(own) for attempt, own in attempts.items()}

    def template_of(self, line: str) -> int | None:
        """Template of a masked line that was mined, None where it was not, or long ago."""
        return self._memory.get(line)

    def _learn(self, text: str, m: Masked) -> int:
        if self._is_unlike(text):
            if self._unlike is None:
                self._unlike = self._born(UNLIKE, m)
            return self._unlike
        cluster, change = self._miner.drain.add_log_message(text or "<blank>")
        known = self._by_cluster.get(cluster.cluster_id)
        if known is None:
            known = self._by_cluster[cluster.cluster_id] = self._born(cluster.get_template(), m)
        elif change != "none":
            self.templates[known].text = cluster.get_template()
            self.changed.add(known)
        return known

    def _born(self, text: str, m: Masked) -> int:
        known = self._next
        self._next += 1
        self.templates[known] = Template(id=known, text=text, exemplar=m.exemplar)
        self.changed.add(known)
        return known

    def _is_unlike(self, text: str) -> bool:
        """True where a line would have to be compared with too many templates, and is like none of them."""
        drain = self._miner.drain
        words = drain.get_content_as_tokens(text)
        leaf = drain.root_node.key_to_child_node.get(str(len(words)))
        if leaf is not None and len(words) > 1:
            children = leaf.key_to_child_node
            leaf = children.get(words[0]) or children.get(drain.param_str)
        if leaf is None or len(leaf.cluster_ids) < MOST_ALIKE:
            return False
        if self._looks[id(leaf)] < MOST_LOOKS:
            if drain.tree_search(drain.root_node, words, drain.sim_th, False) is not None:
                return False
            self._looks[id(leaf)] += 1
        return True

    def _counts(self, own: Mapping[str, Masked]) -> list[TemplateCount]:
        out: dict[int, TemplateCount] = {}
        for text, m in own.items():
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
