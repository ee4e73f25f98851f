"""Equal parts of running pods and of nodes are kept once, within bounds."""

from __future__ import annotations

import msgspec

from pyscheduler.api import Node, Pod, decode
from pyscheduler.cluster.real.interning import SharedParts
from pyscheduler.cluster.real.local_copy import LocalCopy
from pyscheduler.framework.recorder import NullRecorder


def _pod(name: str, *, phase: str = "Running", toleration: str = "node.kubernetes.io/not-ready") -> Pod:
    return decode(
        Pod,
        msgspec.json.encode(
            {
                "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
                "spec": {"tolerations": [{"key": toleration, "operator": "Exists", "effect": "NoExecute"}]},
                "status": {
                    "phase": phase,
                    "conditions": [
                        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                    ],
                },
            }
        ),
    )


def _node(name: str) -> Node:
    images = [{"names": ["registry.example/app:v1"], "sizeBytes": 10_000_000}]
    return decode(Node, msgspec.json.encode({"metadata": {"name": name, "uid": name}, "status": {"images": images}}))


def test_running_pods_share_equal_parts() -> None:
    """Two running pods in an informer's copy have one tuple of tolerations and one text for a condition's type."""
    copy: LocalCopy[Pod] = LocalCopy("pods", NullRecorder())
    for name in ("a", "b"):
        copy.put(_pod(name))
    first, second = copy
    assert first.spec.tolerations is second.spec.tolerations
    assert first.status.conditions[0].type is second.status.conditions[0].type
    assert first == _pod("a")
    assert second == _pod("b")


def test_updated_pod_shares_its_parts() -> None:
    """A pod shares parts from the update on by which it runs; while it is being scheduled it costs no time."""
    copy: LocalCopy[Pod] = LocalCopy("pods", NullRecorder())
    copy.put(_pod("a"))
    pending = _pod("b", phase="Pending")
    copy.put(pending)
    known = copy.get("default/a")
    assert known is not None
    assert pending.spec.tolerations is not known.spec.tolerations
    running = _pod("b")
    copy.put(msgspec.structs.replace(running, metadata=msgspec.structs.replace(running.metadata, resource_version="2")))
    assert running.spec.tolerations is known.spec.tolerations


def test_nodes_share_equal_images() -> None:
    """Two nodes with the same image keep it once."""
    parts = SharedParts()
    first, second = _node("a"), _node("b")
    parts.share(first)
    parts.share(second)
    assert first.status.images[0] is second.status.images[0]
    assert second == _node("b")


def test_known_parts_are_bounded() -> None:
    """Tenants that write ever new tolerations do not grow the table without end."""
    parts = SharedParts()
    for number in range(5000):
        parts.share(_pod("a", toleration=f"key-{number}"))
        assert len(parts) <= 2048 + 16
