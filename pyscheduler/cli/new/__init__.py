"""`pyscheduler new plugin`: the files of a plugin distribution, rendered from texts in this package."""
