"""`check_plugin`: run a plugin on random clusters and report where it breaks its contract.

Belongs here: the random histories, the checks, the search for a minimal history, and the price of a plugin. Does not
belong here: a second scheduler. The checks observe the real one on a `FakeCluster`.

`check` is the entry; `subject` describes what is checked; `history` runs one history with the observers of
`plugin_calls`, `probes` and `sleeping_pods`; `drawing` makes histories and `shrinking` shortens them.
"""
