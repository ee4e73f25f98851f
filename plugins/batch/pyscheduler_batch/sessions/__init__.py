"""Schedule pods job by job, in rounds over all jobs and queues.

`source` decides when a round is due, and runs it. `tables` reads the queues, jobs, tasks (pods of jobs) and
nodes. `placer` finds the nodes that a task may use. `submission` carries out the decisions.
"""
