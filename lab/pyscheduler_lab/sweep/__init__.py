"""Sweeps: run all combinations of traces, clusters, profiles, weights and seeds, or search for the best weights.

A cell is one run of a sweep; its results have a folder of their own. Belongs here: reading the file that describes a
sweep, its cells, what runs them, the table of the results of all cells, and the search. Does not belong here: the
replay of one cell, and the columns of results.
"""
