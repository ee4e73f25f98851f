"""Schedule the pods of batch profiles job by job, in passes (rounds of scheduling over all jobs and queues).

`source` decides when a pass is due, and runs it. `tables` reads the cluster into tables. `placer` finds the nodes that
a task (a pod of a job) may use. `submission` carries out the decisions.
"""
