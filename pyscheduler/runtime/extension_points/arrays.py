"""Check the dtype and the length of the arrays that plugins return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pyscheduler.framework.status import Code

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyscheduler.framework.node_statuses import NodeStatuses

__all__ = ["array_text", "expected_scores", "score_array", "statuses_problem"]

_INT64: Final = np.dtype(np.int64)
_MOST: Final = np.iinfo(np.int64).max
_CODES: Final = len(Code)


def score_array(answer: object, size: int) -> NDArray[np.int64] | None:
    """Return a plugin's scores, int64[size], as an array that may be changed; None where the answer is none.

    A view and a read-only array are copied: the snapshot changes its arrays in place, and `normalize_scores` its own.
    """
    # A subclass, such as a masked array, means more than its numbers.
    if type(answer) is not np.ndarray or answer.shape != (size,):
        return None
    dtype = answer.dtype
    if dtype == _INT64:
        return answer if answer.base is None and answer.flags.writeable else answer.copy()
    if dtype.kind not in "iu" or (dtype.kind == "u" and dtype.itemsize == _INT64.itemsize and (answer > _MOST).any()):
        return None
    return answer.astype(np.int64)


def expected_scores(answer: object, size: int) -> str:
    """Return what `score_nodes` should have returned in place of `answer`."""
    if not isinstance(answer, np.ndarray):
        return f"int64[{size}]"
    remedy = "; write scores.astype(np.int64)" if answer.shape == (size,) and answer.dtype.kind in "bf" else ""
    return f"int64[{size}], not {array_text(answer)}{remedy}"


def statuses_problem(statuses: NodeStatuses, size: int) -> str:
    """Return what `filter_nodes` should have returned, "" if its arrays are right. Costs some passes over the rows.

    What `fail` and `failing` make is right; a plugin may also set `codes` and `reason_ids` itself.
    """
    codes, ids = statuses.codes, statuses.reason_ids
    if statuses.is_sealed and len(codes) == size:
        return ""
    for name, array, dtype in (("codes", codes, np.int8), ("reason_ids", ids, np.int32)):
        if type(array) is not np.ndarray or array.dtype != dtype or array.ndim != 1:
            return f"`{name}` to be {np.dtype(dtype)}[{size}], not {array_text(array)}; use NodeStatuses.fail"
        if len(array) != size:
            return f"one status for each of {size} nodes, not {len(array)}"
    table = np.array([status.code for status in statuses.table], dtype=np.int8)
    # Seen as unsigned, a negative number is a huge one: one pass instead of two.
    if size and ids.view(np.uint32).max() >= len(table):
        return f"`reason_ids` from 0 to {len(table) - 1}, the positions in `table`; use NodeStatuses.add_reason"
    if size and codes.view(np.uint8).max() >= _CODES:
        return "`codes` that are numbers of Code"
    if ((codes != table.take(ids)) & (ids != 0)).any():
        return "`codes` that equal the codes of the statuses in `table`; use NodeStatuses.fail, which sets both"
    return ""


def array_text(answer: object) -> str:
    """Return type, dtype and shape of an answer, as `float64[3]`, or its type where it is no array."""
    if not isinstance(answer, np.ndarray):
        return type(answer).__name__
    kind = "" if type(answer) is np.ndarray else f"{type(answer).__name__} of "
    return f"{kind}{answer.dtype}{[*answer.shape]}"
