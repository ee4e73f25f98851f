"""A cluster without an API server, for runs in which only the scheduler's decisions are of interest.

`typed_cluster` keeps the objects, `typed_client` is the scheduler's client of it, `node_agents` runs and ends pods, and
`session` puts a scheduler on such a cluster in virtual time. None of them knows jobs or traces.
"""
