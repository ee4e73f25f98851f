"""Sweeps: run all combinations of traces, clusters, profiles, weights and seeds, or search for the best weights.

A *cell* is one of the simulations of a sweep, and has a folder with its results. Weights are those of Score plugins.
"""
