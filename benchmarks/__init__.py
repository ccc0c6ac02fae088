"""Benchmarks: ratios in one run, never a timed test."""
