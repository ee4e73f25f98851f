"""The command `pyscheduler queue`, which kubectl runs as `kubectl queue`."""
