"""InterPodAffinity: place a pod near other pods or away from them.

The plugin applies the affinity terms of the pod and of all pods that have nodes already.
"""
