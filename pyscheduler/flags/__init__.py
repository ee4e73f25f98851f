"""The flags of `pyscheduler run`: their declarations, their values in Go's spelling, and the configuration they change.

Belongs here: what kube-scheduler has below `cmd/kube-scheduler/app/options`. Does not belong here: the options of the
other commands, and the features that a flag enables.
"""
