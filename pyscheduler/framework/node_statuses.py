"""`NodeStatuses`: the result of a filter plugin that checks all nodes in one call, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework.status import Code, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["NodeStatuses"]

#: numpy compares an int8 array with a plain int seven times faster than with a member of an IntEnum.
_SUCCESS: Final = int(Code.SUCCESS)

#: What a node gets that no filter looked at, in kube-scheduler's words: nothing, and preemption cannot help.
_ABSENT: Final = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class NodeStatuses:
    """One status per node of a view.

    `codes`: int8[n] of `Code`. `reason_ids`: int32[n], positions in `table`; `table[0]` stands for success. A node is
    given at most one status: `fail` never overwrites an earlier failure, which makes "first reason wins" the default.

    With `names` (the runtime sets it) statuses can also be read by node name; a name that is not among them gets
    `absent`.
    """

    __slots__ = ("_counts", "_index", "_is_shared", "_seal", "absent", "codes", "names", "reason_ids", "table")

    def __init__(self, size: int) -> None:
        try:
            self.codes: NDArray[np.int8] = np.zeros(size, dtype=np.int8)
        except TypeError:
            what = type(size).__name__
            raise TypeError(f"NodeStatuses takes the number of nodes, not {what}; write len(nodes)") from None
        self.reason_ids: NDArray[np.int32] = np.zeros(size, dtype=np.int32)
        self.table: list[Status] = [Status(Code.SUCCESS)]
        self.names: Callable[[int], str] | None = None
        self._index: Callable[[str], int | None] | None = None
        self.absent: Status = _ABSENT
        #: Whether others hold the arrays; then they stay as they are, and the numbers are the same each time.
        self._is_shared = False
        self._counts: tuple[tuple[Status, int], ...] | None = None
        #: The arrays that are known to be right, and read-only; None where they may have been set by hand.
        self._seal: tuple[object, object] | None = None

    @classmethod
    def failing(cls, failed: NDArray[np.bool_], status: Status) -> NodeStatuses | None:
        """Return statuses that are `status` where `failed` (bool[n]) is true; None when it is true nowhere.

        Raises `TypeError` or `ValueError` where `failed` is anything but a bool[n], or `status` rejects no node.
        """
        _check_mask(failed)
        _check_status(status)
        if not failed.any():
            return None
        statuses = cls(len(failed))
        statuses.fail(failed, status)
        return statuses._sealed()

    @classmethod
    def from_mapping(cls, statuses: Mapping[str, Status], *, absent: Status = _ABSENT) -> NodeStatuses:
        """Return statuses by node name; for plugins' tests, and where one node alone is in question."""
        names = list(statuses)
        made = cls(len(names))
        #: By identity: most nodes have the same one.
        known: dict[int, int] = {}
        for row, status in enumerate(statuses.values()):
            if status.is_success:
                continue
            made.codes[row] = status.code
            made.reason_ids[row] = known.get(id(status)) or known.setdefault(id(status), made.add_reason(status))
        made.bind_names(names.__getitem__, {name: row for row, name in enumerate(names)}.get)
        made.absent = absent
        return made

    def share(self, counts: Iterable[tuple[Status, int]] | None = None) -> NodeStatuses:
        """Mark the arrays and the table as shared with others; both are copied then before a status is added.

        `counts` is what `counts()` gives, where that is known. Returns itself.
        """
        self._is_shared = True
        self._counts = None if counts is None else tuple(counts)
        return self

    def _sealed(self) -> NodeStatuses:
        self.codes.flags.writeable = self.reason_ids.flags.writeable = False
        self._is_shared = True
        self._seal = self.codes, self.reason_ids
        return self

    @property
    def is_sealed(self) -> bool:
        """Return True if nobody can have set `codes` or `reason_ids` by hand, as after `failing`."""
        seal = self._seal
        return seal is not None and seal[0] is self.codes and seal[1] is self.reason_ids

    def __len__(self) -> int:
        return len(self.codes)

    def bind_names(self, names: Callable[[int], str], index: Callable[[str], int | None]) -> None:
        """Let statuses be read by node name (`get`, `items`)."""
        self.names = names
        self._index = index

    def add_reason(self, status: Status) -> int:
        """Put `status` into the table and return its id, for `reason_ids`."""
        self._own()
        self.table.append(status)
        return len(self.table) - 1

    def fail(self, failed: NDArray[np.bool_], status: Status) -> None:
        """Give `status` to the nodes where `failed` (bool[n]) is true and which have none yet.

        Raises `TypeError` or `ValueError` where `failed` is anything but a bool[n], or `status` rejects no node.
        """
        _check_mask(failed, len(self.codes))
        _check_status(status)
        self._own()
        rows = failed & (self.reason_ids == 0)
        self.codes[rows] = status.code
        self.reason_ids[rows] = self.add_reason(status)

    def fail_row(self, row: int, status: Status) -> None:
        """Give `status` to one node, if it has none yet; raise `IndexError` for a row that is not there."""
        if row < 0:
            raise IndexError(f"there is no row {row}")
        if self.reason_ids[row] == 0 and not status.is_success:
            self._own()
            self.codes[row] = status.code
            self.reason_ids[row] = self.add_reason(status)

    def fail_before(self, reason_ids: NDArray[np.int32], table: Sequence[Status]) -> None:
        """Give nodes statuses that come before what they have: int32[n], positions in `table`, 0 for none."""
        failed = reason_ids != 0
        if not failed.any():
            return
        self._own()
        offset = len(self.table) - 1
        self.table.extend(table[1:])
        codes = np.array([status.code for status in table], dtype=np.int8)
        np.copyto(self.codes, codes[reason_ids], where=failed)
        np.copyto(self.reason_ids, reason_ids + np.int32(offset), where=failed)

    def passed(self) -> NDArray[np.bool_]:
        """Return bool[n]: which nodes have no failure."""
        passed: NDArray[np.bool_] = self.codes == _SUCCESS
        return passed

    def status(self, row: int) -> Status | None:
        """Return the status of one row; None for success."""
        reason = int(self.reason_ids[row])
        return self.table[reason] if reason else None

    def get(self, node_name: str) -> Status | None:
        """Return the status of the node called `node_name`: None for success, `absent` where it was not looked at."""
        row = self._index(node_name) if self._index is not None else None
        return self.absent if row is None else self.status(row)

    def items(self) -> Iterator[tuple[str, Status]]:
        """Iterate over the nodes that failed, by name."""
        if self.names is None:
            return
        for row in np.flatnonzero(self.reason_ids):
            yield self.names(int(row)), self.table[self.reason_ids[row]]

    def rows_with(self, code: Code) -> NDArray[np.int64]:
        """Return int64[k]: the rows whose status has that code."""
        return np.flatnonzero(self.codes == int(code))

    def counts(self) -> Iterator[tuple[Status, int]]:
        """Iterate over the failures and how many nodes have each; what a FailedScheduling message is made of."""
        if self._counts is not None:
            yield from self._counts
            return
        numbers = np.bincount(self.reason_ids, minlength=len(self.table)).tolist()
        counts = tuple((self.table[reason], number) for reason, number in enumerate(numbers) if reason and number)
        if self._is_shared:
            self._counts = counts
        yield from counts

    def _own(self) -> None:
        """Copy what others hold, before it is changed."""
        if self._is_shared:
            self.codes, self.reason_ids, self.table = self.codes.copy(), self.reason_ids.copy(), self.table.copy()
            self._is_shared = False
            self._counts = None


def _check_status(status: object) -> None:
    """Raise `TypeError` for what is no status, `ValueError` for success, which would fail no node."""
    if not isinstance(status, Status):
        raise TypeError(f"`status` must be a Status, not {type(status).__name__}; write Status.unschedulable(reason)")
    if status.is_success:
        raise ValueError(
            "`status` must say why nodes are rejected, and is a success; write Status.unschedulable(reason)"
        )


def _check_mask(failed: object, size: int | None = None) -> None:
    """Raise `TypeError` where `failed` is no bool array, `ValueError` where its shape is not (`size`,).

    An integer array would be combined bit by bit with the rows that passed, and would mark the wrong nodes in silence.
    """
    if type(failed) is np.ndarray and failed.dtype == np.bool_ and failed.ndim == 1 and size in {None, len(failed)}:
        return
    expected = "one bool per node" if size is None else f"one bool for each of {size} nodes"
    if not isinstance(failed, np.ndarray):
        raise TypeError(
            f"`failed` must be a numpy array with {expected}, not {type(failed).__name__}; "
            "write np.asarray(failed, dtype=np.bool_)"
        )
    if failed.dtype != np.bool_:
        raise TypeError(
            f"`failed` must be a numpy array with {expected}, not {failed.dtype}; "
            "write `failed != 0` for flags, or set `mask = np.zeros(len(nodes), dtype=np.bool_); mask[failed] = True` "
            "for row numbers"
        )
    if failed.ndim != 1 or size not in {None, len(failed)}:
        raise ValueError(f"`failed` must be a numpy array with {expected}, not of shape {failed.shape}")
    # What a masked array masks would be forgotten.
    raise TypeError(
        f"`failed` must be a numpy array with {expected}, not {type(failed).__name__}; "
        "write np.array(failed), or failed.filled(False) for a masked array"
    )
