"""Plugins that place pods on GPUs: the policies that the FGD paper compares, for profiles with `GpuSharing`.

Belongs here: scores of nodes by their devices, and the choice of the device that a pod gets. Does not belong here: the
record of the pods on each device; `GpuSharing` of `pyscheduler_batch` keeps it. The experiment of the paper is in
`pyscheduler_lab.reproduction`.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023.
"""
