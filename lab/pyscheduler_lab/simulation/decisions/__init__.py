"""A cluster in memory without an API server, for runs in which only the scheduler's decisions are of interest.

It is faster than an API server. `session` runs a scheduler on such a cluster, in virtual time.
"""
