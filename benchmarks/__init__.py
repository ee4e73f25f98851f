"""Benchmarks: what `make bench` measures and prints. A missed target is shown, but does not fail the run."""
