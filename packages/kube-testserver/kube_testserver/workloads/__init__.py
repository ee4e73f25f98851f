"""Controllers of workloads for the embedded cluster: they make the pods of a Deployment, a Job or a PyTorchJob.

Belongs here: one pure function for each kind (a rule), from a workload to the objects that its controller makes; the
table of rules (`table`); and the loop that creates and deletes the objects (`controllers`). Does not belong here: what
runs in the pods, rolling updates, and groups that another controller makes, such as KAI-Scheduler's PodGrouper.
"""
