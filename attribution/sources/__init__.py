"""Bytes -> lines: discovery, decompression, prefixes, job identity, accounting and kernel logs."""
