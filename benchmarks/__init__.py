"""Benchmarks: what `make bench` measures and prints."""
