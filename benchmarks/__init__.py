"""Benchmarks: what `make bench` measures and prints. Nothing here is asserted."""
