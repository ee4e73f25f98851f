"""The scheduler: scheduling loop, scheduling cycle, binding cycle, event handlers and failure handling.

It has the steps from a pod's first event to its binding. The package `cluster` talks to the API server.
"""
