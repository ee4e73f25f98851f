"""The flags of `pyscheduler run`: declare them, parse their values as Go does, and apply them to the configuration."""
