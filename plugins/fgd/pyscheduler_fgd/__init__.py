"""Score plugins for nodes with GPUs: the six policies that the paper about FGD compares.

`FGD` and `Random` also choose the GPU of a pod that shares one. `GpuSharing` of `pyscheduler_batch` records the pods on
each GPU. The experiment of the paper is in `pyscheduler_lab.reproduction`.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023.
"""
