"""The scheduler: loop, scheduling cycle, binding cycle, event handlers, failure handling, and `assembly.build`.

Belongs here: what happens to a pod from its first event to its binding, and in which order. Does not belong here: how
nodes are judged (plugins), how the API server is reached (cluster; `ports` says what the scheduler needs of it),
concrete plugins, network libraries.
"""
