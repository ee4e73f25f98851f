"""The scheduler: loop, scheduling cycle, binding cycle, event handlers, failure handling, and `assembly.build`.

Belongs here: the steps from a pod's first event to its binding, and their order. Does not belong here: how nodes are
judged (plugins), how the API server is reached (`cluster`; `ports` has the Protocols), concrete plugins, network
libraries.
"""
