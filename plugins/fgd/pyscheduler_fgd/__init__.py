"""Score plugins for nodes with GPUs: FGD (Fragmentation Gradient Descent), and five others to compare it with.

`FGD` and `Random` also choose the GPU of a pod that shares one. `pyscheduler_lab.reproduction` repeats the experiment
of the paper below.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023.
"""
