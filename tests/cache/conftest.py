"""What tests of the cache share: a world of one cache and one snapshot, and ways to look at a whole snapshot."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from pyscheduler.api import Node, selector_from_labels
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework import PodInfo
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.testing.builders import make_node, make_pod

LABELS = ("zone", "disk", "kubernetes.io/hostname", "nobody-has-this")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods", "example.com/gpu", "example.com/nic", "example.com/none")
IMAGES = ("red:latest", "green:latest", "blue:latest", "nowhere:latest")
ADDRESSES = ("0.0.0.0", "10.0.0.1", "10.0.0.2")
PORTS = (80, 443)
SELECTORS = tuple(map(selector_from_labels, ({}, {"app": "a"}, {"app": "nobody-has-this"})))
CLAIMS = ("default/data", "default/logs")


class Warnings(NullRecorder):
    """Remembers warnings by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def warning(self, kind: str) -> None:
        """Count by kind."""
        self.counts[kind] += 1


class World:
    """A cache, a snapshot that follows it, and short ways to fill them. A pod's uid is `uid-<name>`."""

    def __init__(self) -> None:
        self.warnings = Warnings()
        self.cache = Cache(recorder=self.warnings)
        self.snapshot = Snapshot()

    def pod(self, name: str = "p", node_name: str = "", **keywords: object) -> PodInfo:
        """Make a pod, on a node or not; keywords as for `make_pod`."""
        return PodInfo.of(make_pod(name, uid=f"uid-{name}", node_name=node_name, **keywords))

    def node(self, name: str, **keywords: object) -> Node:
        """Add a node; keywords as for `make_node`."""
        node = make_node(name, **keywords)
        self.cache.add_node(node)
        return node

    def bound(self, name: str, node_name: str, **keywords: object) -> PodInfo:
        """Add a bound pod."""
        info = self.pod(name, node_name, **keywords)
        self.cache.add_pod(info)
        return info

    def assumed(self, name: str, node_name: str, **keywords: object) -> PodInfo:
        """Assume a pod."""
        info = self.pod(name, node_name, **keywords)
        self.cache.assume_pod(info)
        return info

    def update(self) -> Snapshot:
        """Bring the snapshot up to date and return it."""
        self.cache.update_snapshot(self.snapshot)
        return self.snapshot

    def fresh(self) -> Snapshot:
        """Return another snapshot, made from the cache at once."""
        snapshot = Snapshot()
        self.cache.update_snapshot(snapshot)
        return snapshot

    def check(self) -> None:
        """Check the invariants of both."""
        self.cache.check_invariants()
        self.snapshot.check_invariants()


@pytest.fixture
def world() -> Iterator[World]:
    """Give a world whose cache and snapshot must be sound when the test ends."""
    made = World()
    yield made
    made.check()


@pytest.fixture(scope="session")
def make_world() -> type[World]:
    """Give the class, for tests that need several, or other settings."""
    return World


def picture_of(snapshot: Snapshot, *, sizes: bool = True) -> dict[str, object]:
    """Return all that a plugin can learn from a snapshot, free of rows and ids."""
    nodes = snapshot.nodes
    names = [nodes.name(row) for row in range(len(nodes))]
    taints, features = nodes.taints(), nodes.declared_features()
    columns: dict[str, list[object]] = {
        "pods": [sorted(pod.pod.uid for pod in info.pods) for info in nodes],
        "pod_counts": nodes.pod_counts().tolist(),
        "allowed_pods": nodes.allowed_pods().tolist(),
        "unschedulable": nodes.unschedulable().tolist(),
        "taints": [taints.sets[number] for number in taints.ids],
        "features": [features.sets[number] for number in features.ids],
    }
    for resource in RESOURCES:
        columns[f"allocatable {resource}"] = nodes.allocatable(resource).tolist()
        columns[f"requested {resource}"] = nodes.requested(resource).tolist()
    for resource in ("cpu", "memory"):
        columns[f"non-zero {resource}"] = nodes.non_zero_requested(resource).tolist()
    for key in LABELS:
        column = nodes.labels(key)
        columns[f"label {key}"] = [column.values[number] for number in column.ids]
    for ip, port in itertools.product(ADDRESSES, PORTS):
        clashes = set(nodes.host_port_conflicts(ip, "TCP", port).tolist())
        columns[f"port {ip}:{port}"] = [row in clashes for row in range(len(names))]
    for selector in SELECTORS:
        columns[f"matching {selector}"] = nodes.matching_pods(selector, frozenset({"default"})).tolist()
    shared: dict[str, object] = {f"claim {key}": snapshot.pvc_in_use(key) for key in CLAIMS}
    for name in IMAGES:
        image = nodes.image(name)
        if image is not None:
            rows = sorted(names[row] for row in image.rows)
            shared[f"image {name}"] = (rows, image.num_nodes, image.size if sizes else None)
    shared["affinity"] = sorted(info.name for info in snapshot.nodes_with_affinity_pods)
    shared["anti-affinity"] = sorted(info.name for info in snapshot.nodes_with_anti_affinity_pods)
    by_node = {name: {what: column[row] for what, column in columns.items()} for row, name in enumerate(names)}
    return {"nodes": by_node, **shared}


def raw_of(snapshot: Snapshot) -> dict[str, object]:
    """Return every array, id and index of a snapshot as it stands, and its NodeInfos as objects.

    Lines of extended resources that are all zero are left out: nobody can tell them from lines that are not there.
    """
    columns = snapshot._columns
    tables = {
        what: (
            table.view[: table._num_fixed].tolist(),
            {name: table.view[line].tolist() for name, line in table.scalars.items() if table.view[line].any()},
        )
        for what, table in (("usage", columns.usage), ("offered", columns.offered))
    }
    interners = [columns.taints, columns.features, *(each.interner for each in columns.labels._columns.values())]
    return {
        **tables,
        "infos": list(columns.infos),
        "pods": [[id(pod) for pod in info.pods] for info in columns.infos],
        "index": dict(columns.index),
        "ids": [columns.taint_ids().tolist(), columns.feature_ids().tolist(), columns.unschedulable().tolist()],
        "interned": [(list(each.values), dict(each.index), list(each._counts), list(each._free)) for each in interners],
        "labels": {key: column.ids.tolist() for key, column in columns.labels._columns.items()},
        "keys": dict(columns.labels._keys),
        "images": {name: (entry.size, set(entry.rows)) for name, entry in columns.images.entries.items()},
        "ports": {key: {ip: set(rows) for ip, rows in ips.items()} for key, ips in columns.ports._rows.items()},
        "claims": dict(columns.claims._nodes),
        "affinity": list(columns.affinity.rows),
        "anti-affinity": list(columns.anti_affinity.rows),
        "nominated": {name: list(snapshot.nominated_pods(name)) for name in columns.index},
        "order": snapshot.order().tolist(),
    }


@pytest.fixture(scope="session")
def picture() -> Callable[..., dict[str, object]]:
    """Give `picture_of`."""
    return picture_of


@pytest.fixture(scope="session")
def raw() -> Callable[[Snapshot], dict[str, object]]:
    """Give `raw_of`."""
    return raw_of
