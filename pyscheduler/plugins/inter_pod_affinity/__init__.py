"""InterPodAffinity: place a pod near other pods or away from them.

Affinity terms of the pod count, and also affinity terms of the pods that have nodes already.
"""
