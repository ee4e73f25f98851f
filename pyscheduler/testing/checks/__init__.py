"""`check_plugin`: run a plugin on random clusters and report where it breaks the contract of plugins.

A random history is a list of steps: a small cluster, and events on it. Belongs here: the random histories, the checks,
the search for a minimal history, and the measurement of a plugin's CPU time. Does not belong here: a second scheduler.
The checks observe pyscheduler's own scheduler on a `FakeCluster`.

`check` is the entry and shortens the histories that fail; `subject` describes the checked plugin; `drawing` makes
histories, and `history` runs one with the observers of `plugin_calls`, `probes` and `sleeping_pods`.
"""
