"""Sweeps: run all combinations of traces, clusters, profiles, score weights and seeds, or find the best weights.

A *cell* is one of the simulations of a sweep, and has a folder with its results.
"""
