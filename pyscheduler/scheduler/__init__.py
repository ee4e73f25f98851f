"""The scheduler: scheduling cycle, binding cycle, event handlers, failure handling, and `build`, which joins them.

Belongs here: what happens to a pod between the moment it is seen and the moment it is bound, and in which order.
Does not belong here: how nodes are judged (plugins), how the API server is reached (cluster; `ports` says what is
needed of it), concrete plugins, network libraries.
"""
