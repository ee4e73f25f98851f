"""Restrict requests for a kind of object to one namespace, for users without access to other namespaces."""

from __future__ import annotations

from kube_objects.kinds import ResourceKind

__all__ = ["namespace_of", "within"]


class _Within(ResourceKind):
    """A kind in one namespace; "" means all namespaces."""

    within = ""

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the path in that namespace, unless another namespace is given."""
        return super().path(namespace or self.within, name, subresource)


def within(kind: ResourceKind, namespace: str) -> ResourceKind:
    """Return a kind of which only the objects of a namespace are listed; "" means all namespaces."""
    made = _Within(*kind)
    made.within = namespace
    return made


def namespace_of(kind: ResourceKind) -> str:
    """Return the namespace of a kind that `within` has returned; "" for any other kind."""
    return kind.within if isinstance(kind, _Within) else ""
