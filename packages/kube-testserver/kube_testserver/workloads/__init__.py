"""Controllers of workloads for the embedded cluster: they make the pods of a Deployment, a Job or a PyTorchJob.

For each kind, `table` has a function that returns the objects that a workload should have, such as pods. `controllers`
creates the missing objects and deletes the others.
"""
