"""Plugins that place pods on GPUs: the policies that the FGD paper compares, for profiles with `GpuSharing`.

Belongs here: scores of nodes by their devices, and the choice of the device that a pod gets. Does not belong here:
which devices have room and which pods have them, which `GpuSharing` of `pyscheduler_batch` records. The experiment of
the paper is in `pyscheduler_lab.reproduction`.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023.
"""
