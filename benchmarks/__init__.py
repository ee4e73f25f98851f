"""Benchmarks: what `make bench` measures and prints. A missed target does not fail the run."""
