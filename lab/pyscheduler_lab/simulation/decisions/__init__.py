"""A cluster in memory, without an API server, for simulations that only need the scheduler's decisions.

It is faster than a simulation with an API server. The module `session` runs a scheduler on it, in virtual time.
"""
