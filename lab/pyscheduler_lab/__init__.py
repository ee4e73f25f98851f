"""The lab: pyscheduler in virtual time, and checks of the histories that it leaves.

Belongs here: simulations, traces, recorded cases, the checker, demos, the test kit of batch systems. Does not
belong here: anything that the scheduler needs to run. Nothing of the scheduler imports this package.
"""
