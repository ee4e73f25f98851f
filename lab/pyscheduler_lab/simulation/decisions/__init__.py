"""A cluster in memory, without an API server, for simulations that only need the scheduler's decisions.

A simulation on this cluster is faster than one with an API server.
"""
