"""A pattern -> an expression for line *shapes*: lines whose digits became 0 and whose runs of 0 became one.

Lines of a log repeat but for their numbers, so a prefilter that reads each distinct shape once does the work of reading
every line. What holds for `relax` holds here too, with one rule more, by which nothing is missed: an atom that may match
a digit may also match 0, and may be absent, since squeezing drops all but one of a run. Word boundaries stay true: a run
of digits and one 0 are both word characters with the same neighbours.
"""

from __future__ import annotations

import re
import warnings

from attribution.signatures.relax import (
    _DIGIT,
    PatternError,
    Relaxed,
    _Alt,
    _behead,
    _Char,
    _convert_all,
    _emit,
    _literals,
    _min_width,
    _Node,
    _parser,
    _Rep,
    _Scoped,
    _Seq,
    _trim,
)

_ZERO = 1 << 48


def squeezed(pattern: str, *, ignore_case: bool = False) -> Relaxed:
    """The relaxed expression of a pattern over shapes. `empty` where nothing but digits was sure.

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
    node = _squeeze(_convert_all(tree, []))
    node = _trim(_trim(_behead(node), tail=True), tail=False)
    return Relaxed(
        expression=_emit(node),
        literals=tuple(sorted(_literals(node) or ())),
        hazards=(),
        ignore_case=bool(tree.state.flags & re.IGNORECASE),
        empty=_min_width(node) == 0,
    )


def _squeeze(node: _Node) -> _Node:
    match node:
        case _Char(mask, wide):
            return _Rep(0, 1, _wider(mask, wide)) if mask & _DIGIT else node
        case _Rep(_, high, _Char(mask, wide)) if mask & _DIGIT:
            return _Rep(0, high, _wider(mask, wide))
        case _Rep(low, high, body):
            return _Rep(low, high, _squeeze(body))
        case _Seq(items):
            return _Seq(tuple(_squeeze(x) for x in items))
        case _Alt(items):
            return _Alt(tuple(_squeeze(x) for x in items))
        case _Scoped(flag, body):
            return _Scoped(flag, _squeeze(body))
    return node


def _wider(mask: int, wide: bool) -> _Char:
    return _Char((mask & ~_DIGIT) | _ZERO, wide, b"0" if not mask & ~_DIGIT else None)
