"""`check_plugin`: run a plugin on random clusters, and report what the plugin does wrong.

The list of steps that make and change a cluster is called a history.
"""
