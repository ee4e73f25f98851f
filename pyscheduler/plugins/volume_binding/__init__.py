"""Volumes for the pod's claims: where they are reached from, which are to be taken, which are to be made.

Belongs here: VolumeBinding, the choice of volumes per node, what is assumed until the API server has it, and the writes
that bind. Does not belong here: binding claims that do not wait for a pod, and making volumes, which the cluster's own
controllers and drivers do.
"""
