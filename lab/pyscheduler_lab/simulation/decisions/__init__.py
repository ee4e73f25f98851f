"""A cluster in memory without an API server, for runs in which only the scheduler's decisions are of interest.

`typed_cluster` has the objects, `typed_client` is the scheduler's client, and `node_agents` runs and ends pods.
`session` runs a scheduler on such a cluster, in virtual time.
"""
