"""Sessions: the pods of batch profiles, scheduled job by job in passes.

`source` decides when a pass is due and runs it as a work of the scheduling loop; `tables` reads the cluster into the
tables of a session; `placer` answers where a task may go; `submission` carries out the decisions.
"""
