"""`check_plugin`: run a plugin on random clusters, and report what the plugin does wrong.

A history is a list of random steps that make a small cluster and then change it.
"""
