"""Plugins at work: found, loaded, put in order, and called.

Belongs here: discovery through entry points, the registry of what is installed, a profile made into a running
framework, the extension points one module each, the waiting-pod map, what a plugin reaches through its `Handle`.
Plugin code is entered in one place, `plugin_calls`, which turns whatever goes wrong there into a `Status`.

Does not belong here: concrete plugins (they are found like anybody's), the scheduling cycle, the API server.
"""
