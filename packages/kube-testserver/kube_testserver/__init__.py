"""A Kubernetes API server in memory: for tests, simulation and demos, and for `kubectl`.

The rooms, from the outermost in: `cluster` puts everything together. `serving` turns requests into answers, over HTTP
or in process. `controllers` plays the kubelets and controllers of a cluster. `patching`, `subresources` and `access`
(authentication and RBAC) do what a request asks for. All of them write through `registry`, which applies the `rules` of
a write. `printing` makes the tables of `kubectl get`. `resources` says what is served, `schema` which fields a kind
has. `store` keeps objects, versions and changes.

Belongs here: behaving like a real kube-apiserver 1.36, in answers and in wording, as far as schedulers and `kubectl`
depend on it. Does not belong here: anything about where pods should go.
"""
