"""Clusters that are not there: traces turned into API objects, and later virtual time, scenarios and reports.

Belongs here: what feeds or surrounds the real scheduler with made-up circumstances. Does not belong here: a second
scheduler. What is simulated is what ships. Opens no sockets.
"""
