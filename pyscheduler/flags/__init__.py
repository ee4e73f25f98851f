"""The flags of `pyscheduler run`: declare them, parse their values as Go does, and apply them to the configuration.

Belongs here: what kube-scheduler has below `cmd/kube-scheduler/app/options`. Does not belong here: the options of the
other commands, and the features that a flag enables.
"""
