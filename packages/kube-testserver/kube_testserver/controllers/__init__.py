"""Small versions of the programs that a cluster runs beside its API server.

Belongs here: kubelets, the disruption controller, the resource claim controller, the garbage collector, and reactions
to a write: removing namespaces, expiring events, serving CustomResourceDefinitions, aggregating roles. Does not belong
here: answering requests.
"""
