"""Validation of ResourceSlices.

Source: Kubernetes 1.36, `pkg/apis/resource/validation`, with the default feature gates.
Differs from Kubernetes: some checks are missing, such as those of taints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_testserver.errors import FieldProblem
from kube_testserver.resources.scale import value_at
from kube_testserver.rules.names import duplicate_problems, label_problems, subdomain_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_testserver.store import Object

__all__ = ["driver_problems", "pool_problems", "slice_problems"]

_PLACES: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def driver_problems(path: str, name: str) -> Iterator[FieldProblem]:
    """Yield what is wrong with the name of a driver."""
    if not name:
        yield FieldProblem.required(path)
    else:
        yield from subdomain_problems(path, name.lower())


def pool_problems(path: str, name: str) -> Iterator[FieldProblem]:
    """Yield what is wrong with the name of a pool, which may have several parts."""
    if not name:
        yield FieldProblem.required(path)
    else:
        for part in name.split("/"):
            yield from subdomain_problems(path, part)


def slice_problems(old: Object | None, spec: Object) -> Iterator[FieldProblem]:
    """Yield what is wrong with the spec of a new slice, or with a change of `old`."""
    pool = spec.get("pool") or {}
    yield from driver_problems("spec.driver", spec.get("driver") or "")
    yield from pool_problems("spec.pool.name", pool.get("name") or "")
    if (count := pool.get("resourceSliceCount") or 0) <= 0:
        yield FieldProblem.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if (pool.get("generation") or 0) < 0:
        why = "must be greater than or equal to zero"
        yield FieldProblem.invalid("spec.pool.generation", pool["generation"], why)
    if old is not None:
        for path in ("pool.name", "driver", "nodeName"):
            value = value_at(spec, tuple(path.split(".")))
            if value_at(old, tuple(path.split("."))) != value:
                yield FieldProblem.invalid(f"spec.{path}", value, "field is immutable")
    yield from _place_problems("spec", spec, _PLACES)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        yield FieldProblem.invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed")
    for index, device in enumerate(devices or ()):
        where = f"spec.devices[{index}]"
        yield from label_problems(f"{where}.name", device.get("name") or "")
        if spec.get(_PLACES[-1]):
            yield from _place_problems(where, device, _PLACES[:-1])
        elif any(device.get(name) is not None for name in _PLACES[:-1]):
            why = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true "
                "in the ResourceSlice spec"
            )
            yield FieldProblem.invalid(where, None, why)
    yield from duplicate_problems("spec.devices", (one.get("name") or "" for one in devices or ()))
    yield from duplicate_problems("spec.sharedCounters", (one.get("name") or "" for one in counters or ()))


def _place_problems(path: str, owner: Object, places: tuple[str, ...]) -> Iterator[FieldProblem]:
    """Yield what is wrong with where a slice, or a device with a place of its own, can be reached."""
    if len(places) < len(_PLACES):
        also = why = (
            "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set "
            "to true in the ResourceSlice spec"
        )
    else:
        why = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        also = f"{why}, but multiple fields are set"
    chosen = [f"`{name}`" for name in places if owner.get(name)]
    if not chosen:
        yield FieldProblem.required(path, why)
    elif len(chosen) > 1:
        yield FieldProblem.invalid(path, "{" + ", ".join(chosen) + "}", also)
