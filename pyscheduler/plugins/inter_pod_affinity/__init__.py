"""InterPodAffinity: place a pod near other pods or away from them, by its own terms and by the terms of pods on nodes.

Belongs here: the plugin (`plugin`), the pods that a term matches (`terms`), the state of its filter and its scores in
one cycle (`filtering`, `scoring`), and the events that may help a pod that the plugin rejected (`hints`).
"""
