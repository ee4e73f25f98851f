"""Plugins at work: found, loaded, put in order, and called.

Belongs here: `assembly` makes running profiles of what is installed, `extension_points` calls plugins,
`equivalence_cache` reuses their answers, `placement` is the pipeline that places a pod, `statement` records what can be
undone, `preemption` searches for victims, `permit` has the pods that wait, `plugin_handle` is what plugins get.

Does not belong here: concrete plugins (they are found like third-party plugins), the scheduling cycle, the API server.
"""
