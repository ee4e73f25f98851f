"""Controllers of workloads for the embedded cluster: they make the pods of a Deployment, a Job or a PyTorchJob.

Belongs here: one pure function for each kind (`table`), from a workload to the objects that its controller makes, and
the loop that creates and deletes them (`controllers`). Does not belong here: what runs in the pods, rolling updates,
and groups that the PodGrouper makes.
"""
