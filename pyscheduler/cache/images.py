"""The images on each node, and their sizes.

Source: kube-scheduler 1.36, `addNodeImageStates` in `backend/cache/cache.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework.node_info import ImageState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from pyscheduler.api import Node

__all__ = ["ImageEntry", "ImageIndex", "ImageRegistry", "ImageRows", "NodeImages"]


class ImageEntry:
    """One image: size in bytes, and the number of nodes that have it."""

    __slots__ = ("num_nodes", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.num_nodes = 0


class ImageRows(ImageEntry):
    """One image, and the rows of the nodes that have it."""

    __slots__ = ("_array", "rows")

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.rows: set[int] = set()
        self._array: NDArray[np.int64] | None = None

    def add(self, row: int) -> None:
        """Count a node in."""
        self.rows.add(row)
        self._changed()

    def discard(self, row: int) -> None:
        """Count a node out."""
        self.rows.discard(row)
        self._changed()

    def array(self) -> NDArray[np.int64]:
        """Return the rows in ascending order, read-only."""
        if self._array is None:
            self._array = np.fromiter(self.rows, dtype=np.int64, count=len(self.rows))
            self._array.sort()
            self._array.flags.writeable = False
        return self._array

    def _changed(self) -> None:
        self.num_nodes = len(self.rows)
        self._array = None


class NodeImages(Mapping[str, ImageState]):
    """The images of one node by name, as `NodeInfo.image_states` shows them. Always current, because it only points."""

    __slots__ = ("entries",)

    def __init__(self, entries: Mapping[str, ImageEntry]) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __getitem__(self, name: str) -> ImageState:
        entry = self.entries[name]
        return ImageState(size=entry.size, num_nodes=entry.num_nodes)


#: What every node without images has in common.
NO_IMAGES: Final = NodeImages({})


class ImageRegistry:
    """The images of the nodes in the cache."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, ImageEntry] = {}

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
        return NodeImages(entries) if entries else NO_IMAGES

    def remove(self, images: Mapping[str, ImageState]) -> None:
        """Count a node out whose images were `images`."""
        if not isinstance(images, NodeImages):
            return
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


class ImageIndex:
    """The rows of a snapshot by image."""

    __slots__ = ("_of_row", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, ImageRows] = {}
        # What each row was counted with: the cache's mapping, to recognise it, and ours. Rows without images lack it.
        self._of_row: dict[int, tuple[Mapping[str, ImageState], NodeImages]] = {}

    def put(self, row: int, images: Mapping[str, ImageState]) -> NodeImages:
        """Count the node of that row with its images in the cache; return them as of this snapshot."""
        known = self._of_row.get(row)
        if known is not None:
            if known[0] is images:
                return known[1]
        elif not images:
            return NO_IMAGES
        entries: dict[str, ImageRows] = {}
        for name, state in images.items():
            entry = self.entries.get(name)
            if entry is None:
                entry = self.entries[name] = ImageRows(state.size)
            entry.size = state.size
            entry.add(row)
            entries[name] = entry
        if known is not None:
            self._discard(row, [name for name in known[1].entries if name not in entries])
        if not entries:
            self._of_row.pop(row, None)
            return NO_IMAGES
        ours = NodeImages(entries)
        self._of_row[row] = (images, ours)
        return ours

    def move(self, source: int, target: int) -> None:
        """Give the images of row `source` to row `target`, whose own are dropped."""
        self.remove(target)
        known = self._of_row.pop(source, None)
        if known is not None:
            self._of_row[target] = known
            for name in known[1].entries:
                entry = self.entries[name]
                entry.discard(source)
                entry.add(target)

    def remove(self, row: int) -> None:
        """Count the node of that row out."""
        known = self._of_row.pop(row, None)
        if known is not None:
            self._discard(row, known[1].entries)

    def _discard(self, row: int, names: Iterable[str]) -> None:
        for name in names:
            entry = self.entries[name]
            entry.discard(row)
            if not entry.rows:
                del self.entries[name]

    def check_invariants(self, nodes: Sequence[Mapping[str, ImageState]]) -> None:
        """Raise AssertionError unless the index is that of `nodes`, the images of each row."""
        rows: dict[str, set[int]] = {}
        for row, images in enumerate(nodes):
            for name in images:
                rows.setdefault(name, set()).add(row)
        assert rows == {name: entry.rows for name, entry in self.entries.items()}, "rows per image"
        for name, entry in self.entries.items():
            assert entry.num_nodes == len(entry.rows), f"number of nodes with image {name}"
            assert entry.array().tolist() == sorted(entry.rows), f"array of image {name}"
        assert self._of_row.keys() == {row for row, images in enumerate(nodes) if images}, "rows with images"
