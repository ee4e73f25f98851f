"""Benchmarks: what `make bench` measures and prints. A missed target is shown, and is no failure."""
