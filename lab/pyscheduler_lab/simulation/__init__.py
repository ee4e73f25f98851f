"""Run the real scheduler in simulated clusters: traces as API objects, scenarios and reports.

Belongs here: whatever feeds the scheduler with simulated clusters. Does not belong here: a second scheduler;
simulations run the one that users run. Opens no sockets.
"""
