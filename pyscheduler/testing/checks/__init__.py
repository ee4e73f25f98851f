"""`check_plugin`: run a plugin on random clusters and report where it breaks the contract of plugins.

A history is a list of random steps: they make a small cluster and then change it. `check` draws histories, and shortens
one that fails. `history` runs one with the observers of `plugin_calls`, `probes`, `sleeping_pods` and
`victims_in_turn`. The observers watch pyscheduler's own scheduler on a `FakeCluster`.
"""
