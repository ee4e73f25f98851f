"""The parts that a real cluster runs beside its API server, each in its smallest form.

Belongs here: kubelets, the disruption controller, the resource claim controller, and the reactions to a write that end
namespaces, expire events, serve CustomResourceDefinitions and aggregate roles. Does not belong here: anything that
answers a request.
"""
