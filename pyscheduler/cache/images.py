"""Which images are on which nodes, and how large they are.

An image has one size for the whole cluster: the one given by the node that reported it first, until no node has it.
That depends on history, so the cache alone decides it (`ImageRegistry`); the snapshot's `ImageIndex` takes over sizes
and adds the rows. Source: kube-scheduler 1.36, `addNodeImageStates` in `backend/cache/cache.go`.

How many nodes have an image depends on history, too. As in kube-scheduler, a node in the snapshot says how many there
were when it, or a pod on it, last changed; that others have pulled the image since reaches it with its next change.
Source: `SnapshotConcrete` in `framework/types.go`, which only nodes of a new generation go through.

A node lists its images again with every heartbeat; equal lists are recognised and cost nothing in the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from pyscheduler.framework.node_info import ImageState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Node

__all__ = ["ImageEntry", "ImageIndex", "ImageRegistry", "ImageRows", "NodeImages", "RowImages"]


class ImageEntry:
    """One image: size in bytes, and the number of nodes that have it."""

    __slots__ = ("num_nodes", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_nodes = 0


class ImageRows(ImageEntry):
    """One image, and the rows of the nodes that have it."""

    __slots__ = ("_array", "_counts", "rows")

    def __init__(self, size: int) -> None:
        super().__init__(size)
        #: By row, the number of nodes that had the image when that row last changed.
        self.rows: dict[int, int] = {}
        self._array: NDArray[np.int64] | None = None
        self._counts: NDArray[np.int64] | None = None

    def put(self, row: int, num_nodes: int) -> bool:
        """Count a node in, or renew what it knows; tell whether that is another number."""
        if self.rows.get(row) == num_nodes:
            return False
        self.rows[row] = num_nodes
        self._changed()
        return True

    def pop(self, row: int) -> int:
        """Count a node out; return the number of nodes that it knew of."""
        known = self.rows.pop(row)
        self._changed()
        return known

    def array(self) -> NDArray[np.int64]:
        """Return the rows in ascending order, read-only."""
        if self._array is None:
            self._array = np.fromiter(self.rows, dtype=np.int64, count=len(self.rows))
            self._array.sort()
            self._array.flags.writeable = False
        return self._array

    def counts(self) -> NDArray[np.int64]:
        """Return the number of nodes with the image that each of these rows knows of, read-only."""
        if self._counts is None:
            known = self.rows
            self._counts = np.array([known[row] for row in self.array().tolist()], dtype=np.int64)
            self._counts.flags.writeable = False
        return self._counts

    def _changed(self) -> None:
        self.num_nodes = len(self.rows)
        self._array = self._counts = None


class NodeImages(Mapping[str, ImageState]):
    """The images of one node in the cache, by name. Always current, because it only points."""

    __slots__ = ("_registry", "entries")

    def __init__(self, entries: Mapping[str, ImageEntry], registry: ImageRegistry | None = None) -> None:
        self.entries = entries
        self._registry = registry

    @property
    def version(self) -> int:
        """Return a number that grows whenever some node of the cache has other images."""
        return self._registry.version if self._registry is not None else 0

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __getitem__(self, name: str) -> ImageState:
        entry = self.entries[name]
        return ImageState(size=entry.size, num_nodes=entry.num_nodes)


class RowImages(Mapping[str, ImageState]):
    """The images of one row of a snapshot, by name, as `NodeInfo.image_states` shows them to plugins."""

    __slots__ = ("entries", "row")

    def __init__(self, entries: Mapping[str, ImageRows], row: int) -> None:
        self.entries = entries
        self.row = row

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __getitem__(self, name: str) -> ImageState:
        entry = self.entries[name]
        return ImageState(size=entry.size, num_nodes=entry.rows[self.row])


#: What every node without images has in common.
NO_IMAGES: Final = NodeImages({})


class ImageRegistry:
    """The images of the nodes in the cache. `version` grows whenever some node has other images than before."""

    __slots__ = ("entries", "version")

    def __init__(self) -> None:
        self.entries: dict[str, ImageEntry] = {}
        self.version = 0

    def replace(self, old: Node | None, images: Mapping[str, ImageState], node: Node) -> NodeImages:
        """Count `node` instead of its version `old`, whose images were `images`; return its images.

        The same object comes back where nothing changed.
        """
        if old is not None and isinstance(images, NodeImages) and self._is_same(old, images, node):
            return images
        self.remove(images)
        entries: dict[str, ImageEntry] = {}
        for image in node.status.images:
            for name in image.names:
                if name not in entries:
                    entry = self.entries.get(name)
                    if entry is None:
                        entry = self.entries[name] = ImageEntry(image.size_bytes)
                    entry.num_nodes += 1
                    entries[name] = entry
        if not entries:
            return NO_IMAGES
        self.version += 1
        return NodeImages(entries, self)

    def remove(self, images: Mapping[str, ImageState]) -> None:
        """Count a node out whose images were `images`."""
        if not isinstance(images, NodeImages) or not images.entries:
            return
        self.version += 1
        for name, entry in images.entries.items():
            entry.num_nodes -= 1
            if entry.num_nodes == 0:
                del self.entries[name]

    def _is_same(self, old: Node, images: NodeImages, node: Node) -> bool:
        if old.status.images != node.status.images:
            return False
        # The only node left with an image gives it its own size the next time it reports it.
        return all(
            images.entries[name].num_nodes > 1 or images.entries[name].size == image.size_bytes
            for image in node.status.images
            for name in image.names
        )

    def check_invariants(self, nodes: Iterable[Mapping[str, ImageState]]) -> None:
        """Raise AssertionError unless the counts are those of `nodes`, the images of each node."""
        counts: dict[str, int] = {}
        for images in nodes:
            for name, state in images.items():
                counts[name] = counts.get(name, 0) + 1
                assert state.size == self.entries[name].size, f"image {name} has two sizes"
        assert counts == {name: entry.num_nodes for name, entry in self.entries.items()}, "nodes per image"


@attrs.define
class _Row:
    """What a row was counted with: the cache's mapping, to recognise it, with its version then, and ours."""

    images: Mapping[str, ImageState]
    version: int
    ours: RowImages


class ImageIndex:
    """The rows of a snapshot by image."""

    __slots__ = ("_of_row", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, ImageRows] = {}
        #: Rows without images lack it.
        self._of_row: dict[int, _Row] = {}

    def put(self, row: int, images: Mapping[str, ImageState]) -> Mapping[str, ImageState]:
        """Count the node of that row with its images in the cache; return them as of this snapshot."""
        known = self._of_row.get(row)
        if known is not None:
            if known.images is images:
                self.recount(row)
                return known.ours
        elif not images:
            return NO_IMAGES
        entries: dict[str, ImageRows] = {}
        for name, state in images.items():
            entry = self.entries.get(name)
            if entry is None:
                entry = self.entries[name] = ImageRows(state.size)
            entry.size = state.size
            entry.put(row, state.num_nodes)
            entries[name] = entry
        if known is not None:
            self._discard(row, [name for name in known.ours.entries if name not in entries])
        if not entries:
            self._of_row.pop(row, None)
            return NO_IMAGES
        ours = RowImages(entries, row)
        self._of_row[row] = _Row(images, _version(images), ours)
        return ours

    def recount(self, row: int) -> bool:
        """Let a row know how many nodes in the cache have its images by now; tell whether that is news."""
        known = self._of_row.get(row)
        if known is None or not isinstance(known.images, NodeImages) or known.version == known.images.version:
            return False
        known.version = known.images.version
        ours = known.ours.entries
        return sum(ours[name].put(row, entry.num_nodes) for name, entry in known.images.entries.items()) > 0

    def move(self, source: int, target: int) -> None:
        """Give the images of row `source` to row `target`, whose own are dropped."""
        self.remove(target)
        known = self._of_row.pop(source, None)
        if known is not None:
            self._of_row[target] = known
            known.ours.row = target
            for entry in known.ours.entries.values():
                entry.put(target, entry.pop(source))

    def remove(self, row: int) -> None:
        """Count the node of that row out."""
        known = self._of_row.pop(row, None)
        if known is not None:
            self._discard(row, known.ours.entries)

    def _discard(self, row: int, names: Iterable[str]) -> None:
        for name in names:
            entry = self.entries[name]
            entry.pop(row)
            if not entry.rows:
                del self.entries[name]

    def check_invariants(self, nodes: Sequence[Mapping[str, ImageState]]) -> None:
        """Raise AssertionError unless the index is that of `nodes`, the images of each row."""
        rows: dict[str, dict[int, int]] = {}
        for row, images in enumerate(nodes):
            for name, state in images.items():
                rows.setdefault(name, {})[row] = state.num_nodes
        assert rows == {name: entry.rows for name, entry in self.entries.items()}, "rows per image"
        for name, entry in self.entries.items():
            assert entry.num_nodes == len(entry.rows), f"number of nodes with image {name}"
            assert entry.array().tolist() == sorted(entry.rows), f"array of image {name}"
            assert entry.counts().tolist() == [entry.rows[row] for row in sorted(entry.rows)], f"counts of image {name}"
        assert self._of_row.keys() == {row for row, images in enumerate(nodes) if images}, "rows with images"
        assert all(known.ours.row == row for row, known in self._of_row.items()), "a row's images think it is another"


def _version(images: Mapping[str, ImageState]) -> int:
    return images.version if isinstance(images, NodeImages) else 0
