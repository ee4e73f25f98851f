"""The nodes of a snapshot: a sequence of `NodeInfo`, and arrays in which entry i is about `nodes[i]`.

A plugin must not write into an array, and must not use it after the plugin's method has returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.api import CompiledSelector, Taint
    from pyscheduler.framework.affinity_terms import PlacedTerm
    from pyscheduler.framework.node_info import NodeInfo


__all__ = ["FeatureColumn", "ImageColumn", "LabelColumn", "Nodes", "TaintColumn"]


@attrs.frozen
class LabelColumn:
    """The value of one label key on each node.

    `ids`: int32[n], an id per node, 0 where the node lacks the key. `values[id]` is the text; `values[0]` is None, and
    so is the entry of an id that no node uses any more. `id_of` gives the id of a text in use, or -1.
    """

    ids: NDArray[np.int32]
    values: Sequence[str | None]
    index: dict[str, int]

    def id_of(self, value: str) -> int:
        """Return the id of `value`, -1 when no node has it."""
        return self.index.get(value, -1)


@attrs.frozen
class TaintColumn:
    """The taints of each node, interned as a whole.

    `ids`: int32[n]; `sets[id]` is the tuple of taints in the node's order; id 0 is the empty tuple. An id that no node
    uses any more has an empty tuple.
    """

    ids: NDArray[np.int32]
    sets: Sequence[tuple[Taint, ...]]


@attrs.frozen
class FeatureColumn:
    """The features each node declares (`status.declaredFeatures`), interned as a whole.

    `ids`: int32[n]; `sets[id]` is the set of names; id 0 is the empty set, and so is the entry of an id out of use.
    """

    ids: NDArray[np.int32]
    sets: Sequence[frozenset[str]]


@attrs.frozen
class ImageColumn:
    """The nodes that have one image.

    `rows`: int64[k], ascending positions in the view; `size` in bytes as the first node reported it; `num_nodes` counts
    the nodes of the whole cluster that have it, also those outside the view.
    """

    rows: NDArray[np.int64]
    size: int
    num_nodes: int


class Nodes(Protocol):
    """A view of some nodes of the snapshot, all n of them or those that are still candidates, in row order."""

    def __len__(self) -> int:
        """Return n."""
        ...

    def __iter__(self) -> Iterator[NodeInfo]:
        """Iterate over the nodes as objects; for one-node plugins and small views."""
        ...

    def __getitem__(self, index: int, /) -> NodeInfo:
        """Return the node of row `index`."""
        ...

    def name(self, index: int) -> str:
        """Return the name of the node of row `index`."""
        ...

    def index(self, name: str) -> int | None:
        """Return the row of the node called `name` in this view, None when it is not in it."""
        ...

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return int64[n]: the rows of the snapshot that this view shows, in its order; read-only."""
        ...

    def take(self, rows: NDArray[np.int64]) -> Nodes:
        """Return the view of the given rows of this view, in that order; raise `TypeError` for a mask."""
        ...

    def allocatable(self, resource: str) -> NDArray[np.int64]:
        """Return int64[n]: what each node offers; `cpu` in m, the others in units. Zeros for an unknown resource."""
        ...

    def requested(self, resource: str) -> NDArray[np.int64]:
        """Return int64[n]: what the pods on each node ask for. Zeros for an unknown resource."""
        ...

    def non_zero_requested(self, resource: str) -> NDArray[np.int64]:
        """Return int64[n]: the same with the scoring minimum per container; only `cpu` (m) and `memory` (bytes)."""
        ...

    def pod_counts(self) -> NDArray[np.int64]:
        """Return int64[n]: how many pods are on each node."""
        ...

    def allowed_pods(self) -> NDArray[np.int64]:
        """Return int64[n]: how many pods each node takes."""
        ...

    def unschedulable(self) -> NDArray[np.bool_]:
        """Return bool[n]: `spec.unschedulable`."""
        ...

    def taints(self) -> TaintColumn:
        """Return the taints of each node."""
        ...

    def declared_features(self) -> FeatureColumn:
        """Return the features that each node declares."""
        ...

    def labels(self, key: str) -> LabelColumn:
        """Return the values of label `key`. The column is made when first asked for, then kept up to date."""
        ...

    def image(self, name: str) -> ImageColumn | None:
        """Return the nodes that have the image of that normalised name; None when none has."""
        ...

    def host_port_conflicts(self, ip: str, protocol: str, port: int) -> NDArray[np.int64]:
        """Return int64[k]: rows, ascending, on which a pod asking for that host port would clash."""
        ...

    def matching_pods(
        self, selector: CompiledSelector, namespaces: frozenset[str] | None, *, terminating: bool = True
    ) -> NDArray[np.int64]:
        """Return int64[n]: how many pods of `namespaces` (None: of all) the selector matches on each node.

        Pods being deleted count unless `terminating` is False. Each question is remembered and its answer kept up to
        date, so that asking again costs what has changed since.
        """
        ...

    def domain_sums(self, key: str, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 by id of the label `key`: the sums of `counts` (int64[n]) over its values; id 0 is no value.

        The array is the caller's own.
        """
        ...

    def terms_about(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> Sequence[PlacedTerm]:
        """Return what pods, on any node, want of pods with these labels in that namespace, each distinct term once.

        `namespace_labels` are the labels of the namespace. Terms are matched once and counts kept up to date, as for
        `matching_pods`; where no pod has terms, asking costs nothing.
        """
        ...

    def generations(self) -> NDArray[np.int64]:
        """Return int64[n]: each node's generation; what was computed for a row holds while its generation stays."""
        ...
