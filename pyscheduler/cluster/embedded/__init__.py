"""An API server inside the package: for the demo, for tests and simulation, and for `kubectl`.

Three layers. `store` keeps objects, versions and changes; `registry` and its helpers know what a request may do to
them; `routes` turns requests into answers. None of these knows a transport. `server` puts the router behind HTTP,
`in_process` behind a method call, and `cluster` puts everything together.

Belongs here: behaving like a real kube-apiserver 1.36, in answers and in wording, as far as schedulers and `kubectl`
depend on it. Does not belong here: anything about where pods should go, and no import of the scheduler but its ports.
"""
