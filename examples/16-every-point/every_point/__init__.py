"""A pyscheduler plugin. `EveryPoint` is its name in a profile."""
