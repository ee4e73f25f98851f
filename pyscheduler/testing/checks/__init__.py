"""`check_plugin`: run a plugin on random clusters and report where it breaks the contract of plugins.

A history is a list of random steps: they make a small cluster and then change it. Belongs here: the histories, the
checks, the search for a minimal history, and the measurement of a plugin's CPU time. Does not belong here: a second
scheduler. The checks observe pyscheduler's own scheduler on a `FakeCluster`.

`check` is the entry and shortens the histories that fail. `history` runs one with the observers of `plugin_calls`,
`probes` and `sleeping_pods`.
"""
