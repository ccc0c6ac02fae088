"""Which lines of a folder match, and nothing else: the stage that ripgrep is compared with."""

from __future__ import annotations

import sys

from attribution import resources
from attribution.match import Matcher
from attribution.match.shapes import FileShapes, ShapeMatcher
from attribution.signatures import load
from attribution.sources.blocks import ReadReport, read_blocks
from attribution.sources.discover import discover


def main() -> None:
    """Print the number of candidate lines, thinned as the scan thins them."""
    matcher = Matcher(load((resources.rules_dir(),)))
    shapes = ShapeMatcher(matcher)
    total = 0
    for job in discover(sys.argv[1:]).groups:
        for file in job.files:
            state, sampler = FileShapes(shapes, file.display, file.source), matcher.sampler(file.source)
            for block in read_blocks(file, report=ReadReport()):
                total += len(state.candidates(block, sampler))
    print(total)


if __name__ == "__main__":
    main()
