"""Schedulers: what Recovery sees of a cluster and the few commands it may give.

The only package that starts other programs. `base` holds the words that `attribution.reconcile` plans with, `slurm` the
real thing, `fake` one in memory that behaves like it.
"""
