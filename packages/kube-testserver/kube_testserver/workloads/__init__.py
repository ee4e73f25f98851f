"""Controllers of workloads for the embedded cluster: they make the pods of a Deployment, a Job or a PyTorchJob.

Each kind has a rule, a function from a workload to the objects that its controller makes (`table`). `controllers`
creates and deletes these objects. Does not belong here: PodGroups that no workload controller makes.
"""
