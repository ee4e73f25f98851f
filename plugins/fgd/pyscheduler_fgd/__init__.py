"""Score plugins for nodes with GPUs: FGD (Fragmentation Gradient Descent), and five others to compare it with.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023.
"""
