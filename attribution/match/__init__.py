"""Lines x signatures -> matches; the only importer of the regex engine.

Two passes. The first runs the relaxed expressions (`attribution.signatures.relax`) over whole newline-aligned buffers
and says which lines may match what: Hyperscan where its wheel is installed, literals and `re` on bytes elsewhere, with
equal results. The second runs the signatures' own patterns on the few lines that hit.

Noise rules silence other rules and say nothing by themselves, so they are looked for only on lines that something else
hit. Files full of progress are thinned (`attribution.match.sampling`).
"""

from attribution.match.matcher import Candidate, Matcher
from attribution.match.sampling import Sampler, Skipped

__all__ = ["Candidate", "Matcher", "Sampler", "Skipped"]
