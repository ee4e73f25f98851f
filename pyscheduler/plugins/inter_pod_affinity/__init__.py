"""InterPodAffinity: place a pod near other pods or away from them.

Affinity terms of the pod count, and also terms of the pods on nodes.
"""
