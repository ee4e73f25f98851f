"""InterPodAffinity: a pod demands, or prefers, to be near certain pods or away from them; and so do those around it.

Belongs here: the plugin (`plugin`), the pods that its terms look for (`terms`), its filter and its scores as state of
one cycle (`filtering`, `scoring`), and which events may help a pod it rejected (`hints`).
"""
