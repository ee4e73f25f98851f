"""The plugin runtime: finds, loads, orders and calls plugins.

`assembly` builds profiles from the installed plugins, and `extension_points` calls their methods. `placement` finds a
node for a pod; `preemption` finds pods to evict.
"""
