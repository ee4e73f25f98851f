"""The number of volumes that a node's CSI drivers can attach.

Belongs here: NodeVolumeLimits, which volumes a pod brings, and what is attached to each node already. Does not belong
here: whether there are volumes at all, and whether a node reaches them, which is VolumeBinding's.
"""
