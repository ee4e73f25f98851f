"""The commands of `pyscheduler` and its kubectl plugins."""
