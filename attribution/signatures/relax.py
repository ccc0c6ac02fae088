"""A signature's pattern -> what a prefilter needs: a looser expression, and literals that every match contains.

The looser expression runs on raw bytes and only asks whether a line *may* match; the pattern itself decides later on
the parsed message. Everything here widens, never narrows:

- anchors go, since prefixes and escape codes stand around the message in the raw line;
- what is optional at either end goes (engines report every end of a match: a tail costs a callback per byte);
- look-around is dropped, back-references become "anything", possessive and atomic groups become plain ones;
- a character that may be several bytes of UTF-8 becomes one to four bytes;
- a quote or backslash may be escaped by a backslash, since messages also come inside JSON;
- nothing matches a line end, so that the expression means the same on one line and on a whole buffer.

Both engines run this same expression, so that they agree by construction.
"""

from __future__ import annotations

import importlib
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_parser: Any = importlib.import_module("re._parser")

#: Bounds above this are dropped from repeats: counting costs the engine states and decides nothing in a prefilter.
_MAX_COUNT = 32
#: A literal that is worth scanning for alone, one that is not, and bytes that a set must hold to count as "anything".
_STRONG = 6
_WEAK = 5
_NEARLY_ALL = 240
_ALL = (1 << 256) - 1
_NEWLINE = 1 << 10
_HIGH = ((1 << 128) - 1) << 128
_DIGIT = sum(1 << c for c in b"0123456789")
_WORD = sum(1 << c for c in range(256) if c < 128 and (chr(c).isalnum() or c == 95))
_SPACE = sum(1 << c for c in b" \t\n\r\f\v")
_CATEGORIES = {
    "CATEGORY_DIGIT": _DIGIT,
    "CATEGORY_NOT_DIGIT": _ALL & ~_DIGIT,
    "CATEGORY_SPACE": _SPACE,
    "CATEGORY_NOT_SPACE": _ALL & ~_SPACE,
    "CATEGORY_WORD": _WORD,
    "CATEGORY_NOT_WORD": _ALL & ~_WORD,
}


class PatternError(ValueError):
    """A pattern is no regular expression, or uses what signatures may not use."""


@dataclass(frozen=True, slots=True)
class _Char:
    """One character: bit set of its first byte, whether more bytes may follow, and its literal if it is fixed."""

    mask: int
    wide: bool = False
    literal: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Edge:
    """A word boundary."""


@dataclass(frozen=True, slots=True)
class _Seq:
    items: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Alt:
    items: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Rep:
    low: int
    high: int | None
    body: _Node


@dataclass(frozen=True, slots=True)
class _Scoped:
    """A group with its own case flag."""

    ignore_case: bool
    body: _Node


_Node = _Char | _Edge | _Seq | _Alt | _Rep | _Scoped
_EMPTY = _Seq(())
_ANYTHING = _Rep(0, None, _Char(_ALL & ~_NEWLINE, True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """What the prefilter knows of one pattern.

    `expression` is understood alike by Hyperscan and by `re` on bytes. Every match contains one of `literals` (lower
    case; empty where none is sure). `hazards` says which constructs could make the exact pattern slow or that
    engines of linear time refuse; `repeats` counts the long repeats that stand one after another, since each can
    multiply the time that a hostile message costs. `empty` means that it matches any text.
    """

    expression: str
    literals: tuple[bytes, ...]
    hazards: tuple[str, ...]
    ignore_case: bool
    empty: bool
    repeats: int = 0

    @property
    def shortest(self) -> int:
        """Length of the shortest literal, 0 where there is none."""
        return min((len(x) for x in self.literals), default=0)


def relax(pattern: str, *, ignore_case: bool = False) -> Relaxed:
    """Relax a pattern.

    Raises:
        PatternError: the pattern is not a regular expression of `re`.
    """
    flags = re.ASCII | (re.IGNORECASE if ignore_case else 0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = _parser.parse(pattern, flags)
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise PatternError(str(error)) from error
    caseless = bool(tree.state.flags & re.IGNORECASE)
    hazards: list[str] = []
    node = _convert_all(tree, hazards)
    if _ambiguous(node):
        hazards.append("nested unbounded repeats")
    repeats = _repeats(node)
    node = _trim(_trim(_behead(node), tail=True), tail=False)
    return Relaxed(
        expression=_emit(node),
        literals=tuple(sorted(_literals(node) or ())),
        hazards=tuple(dict.fromkeys(hazards)),
        ignore_case=caseless,
        empty=_min_width(node) == 0,
        repeats=repeats,
    )


def _convert_all(items: Iterable[Any], hazards: list[str]) -> _Node:
    out: list[_Node] = []
    for op, argument in items:
        node = _convert(str(op), argument, hazards)
        out.extend(node.items if isinstance(node, _Seq) else (node,))
    return out[0] if len(out) == 1 else _Seq(tuple(out))


def _convert(op: str, arg: Any, hazards: list[str]) -> _Node:
    match op:
        case "LITERAL":
            return _literal(arg)
        case "NOT_LITERAL":
            return _Char(_ALL & ~_NEWLINE & ~(1 << arg if arg < 128 else 0), True)
        case "ANY":
            return _Char(_ALL & ~_NEWLINE, True)
        case "IN":
            return _charset(arg)
        case "BRANCH":
            return _Alt(tuple(_convert_all(x, hazards) for x in arg[1]))
        case "SUBPATTERN":
            _, add, remove, body = arg
            inner = _convert_all(body, hazards)
            return _Scoped(bool(add & re.IGNORECASE), inner) if (add | remove) & re.IGNORECASE else inner
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, body = arg
            if op == "POSSESSIVE_REPEAT":
                hazards.append("possessive repeat")
            bound = None if high == _parser.MAXREPEAT else int(high)
            return _Rep(int(low), bound, _convert_all(body, hazards))
        case "ATOMIC_GROUP":
            hazards.append("atomic group")
            return _convert_all(arg, hazards)
        case "AT":
            return _Edge() if str(arg) == "AT_BOUNDARY" else _EMPTY
        case "ASSERT" | "ASSERT_NOT":
            hazards.append("look-around")
            return _EMPTY
        case "GROUPREF" | "GROUPREF_EXISTS":
            hazards.append("back-reference")
            return _ANYTHING
    raise PatternError(f"construct {op} is not supported")


def _literal(code: int) -> _Node:
    raw = chr(code).encode("utf-8", "surrogatepass")
    chars = tuple(_Char(1 << b, False, bytes([b])) for b in raw)
    return chars[0] if len(chars) == 1 else _Seq(chars)


def _charset(items: Sequence[tuple[Any, Any]]) -> _Char:
    mask, negate = 0, False
    for op, arg in items:
        match str(op):
            case "NEGATE":
                negate = True
            case "LITERAL":
                mask |= 1 << arg if arg < 128 else (0 if negate else _HIGH)
            case "RANGE":
                low, high = arg
                mask |= sum(1 << c for c in range(low, min(high, 127) + 1))
                mask |= _HIGH if high > 127 and not negate else 0
            case "CATEGORY":
                mask |= _CATEGORIES[str(arg)]
    if negate:
        mask = (_ALL & ~mask) | _HIGH
    mask &= ~_NEWLINE
    if mask.bit_count() == 1 and mask < 1 << 128:
        return _Char(mask, False, bytes([mask.bit_length() - 1]))
    return _Char(mask, bool(mask & _HIGH))


def _reach(node: _Node) -> int:
    """Bytes that unbounded repeats inside the node may consume."""
    match node:
        case _Rep(_, high, body):
            own = _bytes_of(body) if high is None or high > _MAX_COUNT else 0
            return own | _reach(body)
        case _Seq(items) | _Alt(items):
            total = 0
            for item in items:
                total |= _reach(item)
            return total
        case _Scoped(_, body):
            return _reach(body)
    return 0


def _bytes_of(node: _Node) -> int:
    match node:
        case _Char(mask):
            return mask
        case _Rep(_, _, body) | _Scoped(_, body):
            return _bytes_of(body)
        case _Seq(items) | _Alt(items):
            total = 0
            for item in items:
                total |= _bytes_of(item)
            return total
    return 0


def _ambiguous(node: _Node) -> bool:
    """True where an unbounded repeat holds another one and no fixed separator keeps the two apart."""
    match node:
        case _Rep(_, high, body):
            inner = _reach(body)
            if (high is None or high > _MAX_COUNT) and inner:
                items = body.items if isinstance(body, _Seq) else (body,)
                if not any(isinstance(x, _Char) and not x.mask & inner for x in items):
                    return True
            return _ambiguous(body)
        case _Seq(items) | _Alt(items):
            return any(_ambiguous(x) for x in items)
        case _Scoped(_, body):
            return _ambiguous(body)
    return False


def _repeats(node: _Node) -> int:
    """Repeats of eight or more along the longest way through the pattern."""
    match node:
        case _Rep(_, high, body):
            return int(high is None or high >= 8) + _repeats(body)
        case _Scoped(_, body):
            return _repeats(body)
        case _Seq(items):
            return sum(_repeats(x) for x in items)
        case _Alt(items):
            return max((_repeats(x) for x in items), default=0)
    return 0


def _trim(node: _Node, *, tail: bool) -> _Node:
    """Drop what an existence check does not need at one end; `_EMPTY` where nothing is left."""
    match node:
        case _Char(mask, True, literal):
            return _Char(mask, False, literal)  # one byte of it is enough at an end
        case _Edge():
            return _EMPTY
        case _Rep(low, _, body):
            if low == 0:
                return _EMPTY
            inner = _trim(body, tail=tail)
            return inner if low == 1 or inner == _EMPTY else _Rep(low, low, body)
        case _Scoped(flag, body):
            inner = _trim(body, tail=tail)
            return _EMPTY if inner == _EMPTY else _Scoped(flag, inner)
        case _Alt(items):
            trimmed = tuple(_trim(x, tail=tail) for x in items)
            return _EMPTY if _EMPTY in trimmed else _Alt(tuple(dict.fromkeys(trimmed)))
        case _Seq(items):
            rest = list(items)
            while rest:
                end = _trim(rest[-1 if tail else 0], tail=tail)
                if end != _EMPTY:
                    rest[-1 if tail else 0] = end
                    break
                rest.pop(-1 if tail else 0)
            return rest[0] if len(rest) == 1 else _Seq(tuple(rest))
    return node


def _stretchy(node: _Node) -> bool:
    """True for ``.*`` and its like, also inside an optional group."""
    match node:
        case _Rep(_, high, _Char(mask)):
            return (high is None or high > _MAX_COUNT) and mask.bit_count() > _NEARLY_ALL
        case _Rep(0, 1, body):
            return _stretchy(body) or (isinstance(body, _Seq) and any(_stretchy(x) for x in body.items))
    return False


def _shortest(items: Sequence[_Node]) -> int:
    found = _literals_of_sequence(items)
    return min((len(x) for x in found), default=0) if found else 0


def _behead(node: _Node) -> _Node:
    """Drop a weak beginning in front of ``.*`` where a strong literal follows.

    An engine would run on after every ``: `` of a log to look for the rest; looking for the rest alone is far cheaper.
    """
    match node:
        case _Scoped(flag, body):
            return _Scoped(flag, _behead(body))
        case _Alt(items):
            return _Alt(tuple(_behead(x) for x in items))
        case _Seq(items):
            for i in range(len(items) - 2, -1, -1):
                if _stretchy(items[i]) and _shortest(items[i + 1 :]) >= _STRONG and _shortest(items[:i]) < _WEAK:
                    rest = items[i + 1 :]
                    return rest[0] if len(rest) == 1 else _Seq(rest)
    return node


def _min_width(node: _Node) -> int:
    match node:
        case _Char():
            return 1
        case _Rep(low, _, body):
            return low * _min_width(body)
        case _Scoped(_, body):
            return _min_width(body)
        case _Seq(items):
            return sum(_min_width(x) for x in items)
        case _Alt(items):
            return min((_min_width(x) for x in items), default=0)
    return 0


def _hex(code: int) -> str:
    char = chr(code)
    return char if code < 128 and (char.isalnum() or char in " _,:;=<>@%&!~'/\"") else f"\\x{code:02x}"


def _set_text(mask: int) -> str:
    inverted = mask.bit_count() > 128
    bits = (_ALL & ~mask) if inverted else mask
    parts: list[str] = []
    code = 0
    while code < 256:
        if bits >> code & 1:
            end = code
            while end + 1 < 256 and bits >> (end + 1) & 1:
                end += 1
            first, last = f"\\x{code:02x}", f"\\x{end:02x}"
            parts.append(first if end == code else f"{first}-{last}" if end > code + 1 else first + last)
            code = end
        code += 1
    return f"[{'^' if inverted else ''}{''.join(parts)}]"


def _emit_char(node: _Char) -> str:
    text = _hex(node.literal[0]) if node.literal is not None else _set_text(node.mask)
    quote, backslash = node.mask >> 34 & 1, node.mask >> 92 & 1
    escaped = not node.wide and (quote or backslash) and (node.literal is not None or not backslash)
    return f"(?:\\x5c?{text})" if escaped else text


def _emit(node: _Node) -> str:
    match node:
        case _Char():
            return _emit_char(node) + ("{1,4}" if node.wide else "")
        case _Edge():
            return r"\b"
        case _Scoped(flag, body):
            return f"(?{'i' if flag else '-i'}:{_emit(body)})"
        case _Seq(items):
            return "".join(_emit(x) for x in items)
        case _Alt(items):
            return f"(?:{'|'.join(_emit(x) for x in items)})"
        case _Rep(low, high, body):
            return _emit_repeat(low, high, body)
    raise AssertionError(node)


def _emit_repeat(low: int, high: int | None, body: _Node) -> str:
    wide = isinstance(body, _Char) and body.wide
    if isinstance(body, _Char):
        text = _emit_char(body)
    else:
        text = f"(?:{_emit(body)})"
    if high is not None and wide:
        high *= 4
    if high is not None and high > _MAX_COUNT:
        high = None
    low = min(low, _MAX_COUNT)
    if high is None:
        return text + ("*" if low == 0 else "+" if low == 1 else f"{{{low},}}")
    if (low, high) == (0, 1):
        return text + "?"
    return text if (low, high) == (1, 1) else f"{text}{{{low},{high}}}"


def _worth(found: frozenset[bytes]) -> float:
    return min(min(len(x) for x in found), 8) - 0.3 * math.log2(len(found))


def _literals(node: _Node) -> frozenset[bytes] | None:
    """The most telling set of literals of which every match contains one, None where there is none."""
    match node:
        case _Char(_, _, literal) if literal is not None and literal not in (b'"', b"\\"):
            return frozenset({literal.lower()})
        case _Rep(low, _, body) if low > 0:
            return _literals(body)
        case _Scoped(_, body):
            return _literals(body)
        case _Alt(items):
            sets = [_literals(x) for x in items]
            return frozenset().union(*(s for s in sets if s)) if sets and all(sets) else None
        case _Seq(items):
            return _literals_of_sequence(items)
    return None


def _literals_of_sequence(items: Sequence[_Node]) -> frozenset[bytes] | None:
    options: list[frozenset[bytes]] = []
    run = b""
    for item in (*items, _EMPTY):
        if isinstance(item, _Char) and item.literal is not None and item.literal not in (b'"', b"\\"):
            run += item.literal.lower()
            continue
        if run:
            options.append(frozenset({run}))
            run = b""
        found = _literals(item) if item != _EMPTY else None
        if found:
            options.append(found)
    return max(options, key=lambda s: (_worth(s), sorted(s))) if options else None
