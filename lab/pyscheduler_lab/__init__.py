"""The lab: runs pyscheduler in virtual time, and checks the recorded history of each run.

Belongs here: simulations, traces, recorded cases, the checker, demos, the test kit of batch systems. Does not
belong here: anything that the scheduler needs to run. Nothing of the scheduler imports this package.
"""
