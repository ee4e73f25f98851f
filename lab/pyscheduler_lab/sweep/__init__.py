"""Sweeps: run all combinations of traces, clusters, profiles, weights and seeds, or search for the best weights.

A *cell* is one run of a sweep. Each cell has a folder with its results.
"""
