"""Controllers of workloads for the embedded cluster: they make the pods of a Deployment, a Job or a PyTorchJob.

For each kind, `table` has a function that returns the objects of a workload, such as its pods. `controllers` creates
and deletes these objects.
"""
