"""NodeVolumeLimits: the number of volumes that a node's CSI drivers can attach.

Belongs here: the plugin, the volumes that a pod brings, and the volumes that are attached to each node. Does not belong
here: whether volumes exist and whether a node reaches them (VolumeBinding).
"""
