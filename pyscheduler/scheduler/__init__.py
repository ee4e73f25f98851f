"""The scheduler: scheduling loop, scheduling cycle, binding cycle, event handlers and failure handling.

The package `cluster` talks to the API server.
"""
