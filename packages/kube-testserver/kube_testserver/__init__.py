"""A Kubernetes API server in memory, for tests, simulations and demos.

It behaves as kube-apiserver 1.36, as far as schedulers and `kubectl` depend on it. Its parts, outermost first:

- `command` is the command line.
- `test_server` serves a cluster in a second thread, `served_cluster` on the running event loop.
- `workloads` makes the pods of Deployments, Jobs and other workloads.
- `cluster` assembles all parts.
- `serving` answers requests, over HTTP or in process.
- `controllers` simulates kubelets and other controllers.
- `access` authenticates and authorizes requests (RBAC).
- `patching` carries out PATCH requests. `subresources` binds and evicts pods.
- `registry` carries out writes, and applies `rules` (defaults, validation, admission).
- `printing` makes the tables of `kubectl get`.
- `resources` defines the served resources, `schema` the fields of each kind.
- `store` keeps objects, versions and changes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kube_testserver.cluster import EmbeddedCluster
    from kube_testserver.test_server import TestServer

__all__ = ["EmbeddedCluster", "TestServer"]

#: Modules of the public names. pytest imports this package in every run, and the server takes 0.3 s to import.
_MODULES: Final = {"EmbeddedCluster": "kube_testserver.cluster", "TestServer": "kube_testserver.test_server"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
