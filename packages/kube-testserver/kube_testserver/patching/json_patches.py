"""Apply patches that need no schema: JSON merge patch (RFC 7386) and JSON patch (RFC 6902).

The result shares parts with the arguments: copy the result before you store it.
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["PatchError", "apply_json_patch", "apply_merge_patch"]

MAX_OPERATIONS: Final = 10_000


class PatchError(Exception):
    """The patch does not fit the object (a missing path, a failed test), or is no patch (`malformed`)."""

    def __init__(self, message: str, *, malformed: bool = False) -> None:
        self.malformed = malformed
        super().__init__(message)


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Return `target` with `patch` merged in: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge_patch(merged.get(name), value)
    return merged


def apply_json_patch(document: Any, operations: Any) -> Any:
    """Return `document` after all `operations`, in order; the first that does not apply is a `PatchError`."""
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise PatchError("a JSON patch is a list of operations", malformed=True)
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
            malformed=True,
        )
    for operation in operations:
        document = _apply_operation(document, operation)
    return document


def _apply_operation(document: Any, operation: dict[str, Any]) -> Any:
    kind, path = operation.get("op"), _pointer(operation.get("path"))
    if kind == "remove":
        return _changed(document, path, _remove)
    if kind in ("move", "copy"):
        source = _pointer(operation.get("from"))
        value = _value_at(document, source)
        if kind == "move":
            if path[: len(source)] == source and path != source:
                raise PatchError("a value cannot be moved into itself")
            document = _changed(document, source, _remove)
        return _set(document, path, value, _add)
    if kind not in ("add", "replace", "test"):
        raise PatchError(f"Unexpected kind: {kind}")
    if "value" not in operation and kind != "test":
        raise PatchError(f"{kind} operation without a value", malformed=True)
    value = operation.get("value")
    if kind == "test":
        if not _same(_value_at(document, path, missing=None), value):
            raise PatchError(f"testing value {operation.get('path')} failed")
        return document
    return _set(document, path, value, _add if kind == "add" else _replace)


def _same(left: Any, right: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise PatchError(f"{text!r} is not a JSON pointer", malformed=True)
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


_RAISE: Final = object()


def _value_at(document: Any, path: list[str], *, missing: Any = _RAISE) -> Any:
    value = document
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list):
            value = value[_index(value, step)]
        elif missing is not _RAISE:
            return missing
        else:
            raise PatchError(f"missing path: {step}")
    return value


def _index(items: list[Any], step: str, *, beyond: bool = False) -> int:
    """Return a list position; with `beyond`, the end and ``-`` are positions too."""
    if beyond and step == "-":
        return len(items)
    if not step.isascii() or not step.isdigit() or (len(step) > 1 and step[0] == "0"):
        raise PatchError(f"{step!r} is no position in a list")
    position = int(step)
    if position >= len(items) + beyond:
        raise PatchError(f"position {position} is out of range")
    return position


def _set(document: Any, path: list[str], value: Any, place: Any) -> Any:
    if not path:
        return value
    return _changed(document, path, lambda parent, step: place(parent, step, value))


def _changed(document: Any, path: list[str], change: Any) -> Any:
    """Return the document with `change(parent, last step)` made on a copy of each container on the way."""
    if not path:
        raise PatchError("the whole document cannot be removed")
    if not isinstance(document, dict | list):
        raise PatchError(f"missing path: {path[0]}")
    copy: Any = document.copy()
    if len(path) == 1:
        change(copy, path[0])
        return copy
    step: Any = _index(copy, path[0]) if isinstance(copy, list) else path[0]
    if isinstance(copy, dict) and step not in copy:
        raise PatchError(f"missing path: {step}")
    copy[step] = _changed(copy[step], path[1:], change)
    return copy


def _add(parent: Any, step: str, value: Any) -> None:
    if isinstance(parent, list):
        parent.insert(_index(parent, step, beyond=True), value)
    else:
        parent[step] = value


def _replace(parent: Any, step: str, value: Any) -> None:
    if isinstance(parent, list):
        parent[_index(parent, step)] = value
    elif step in parent:
        parent[step] = value
    else:
        raise PatchError(f"missing path: {step}")


def _remove(parent: Any, step: str) -> None:
    if isinstance(parent, list):
        del parent[_index(parent, step)]
    elif step in parent:
        del parent[step]
    else:
        raise PatchError(f"missing path: {step}")
