"""`pyscheduler new plugin`: write a Python package for a new plugin, made from an example."""
