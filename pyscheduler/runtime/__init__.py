"""The plugin runtime: finds, loads, orders and calls plugins.

`assembly` builds profiles from the installed plugins; `extension_points` calls plugins; `equivalence_cache` reuses
their answers; `placement` finds a node for a pod; `statement` makes changes of a snapshot that can be undone;
`preemption` searches for victims; `permit` has the pods that wait at Permit; `plugin_handle` is the object through
which plugins use the scheduler.

Does not belong here: concrete plugins (they are found like third-party plugins), the scheduling cycle, the API server.
"""
