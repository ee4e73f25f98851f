"""The scheduler: scheduling loop, scheduling cycle, binding cycle, event handlers and failure handling.

Belongs here: the steps from a pod's first event to its binding, and their order. Does not belong here: plugins, the
client of the API server (`cluster`), network libraries.
"""
