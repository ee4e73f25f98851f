"""Sweeps: the runs of many traces, clusters, profiles, weights and seeds, each with a bundle, and a search of weights.

A cell is one run of a sweep. Belongs here: the file of a sweep, its cells, what runs them, the table of all, and the
search. Does not belong here: the replay of one cell, and the columns of results.
"""
