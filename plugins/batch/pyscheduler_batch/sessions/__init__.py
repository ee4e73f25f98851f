"""Sessions: the pods of batch profiles, scheduled job by job in passes.

`source` decides when a pass is due, and runs it within the scheduling loop. `tables` reads the cluster into the tables
of a session, `placer` finds the nodes that a task may use, and `submission` carries out the decisions.
"""
