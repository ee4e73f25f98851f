"""The subresource `scale` (autoscaling/v1): the number of replicas that an object has and should have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_testserver import errors

if TYPE_CHECKING:
    from kube_testserver.resources.table import Resource, ScalePaths
    from kube_testserver.store import Object, Record

__all__ = ["scale_of", "selector_text", "value_at", "with_scale"]

_SYMBOLS: Final = {"In": "in", "NotIn": "notin"}
_KEPT: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(paths: ScalePaths, record: Record) -> Object:
    """Return the scale of a stored object."""
    obj = record.decode()
    metadata = {name: obj["metadata"][name] for name in _KEPT if name in obj["metadata"]}
    wanted = value_at(obj, paths.wanted) or 0
    status: Object = {"replicas": value_at(obj, paths.present) or 0}
    selector = selector_text(value_at(obj, paths.selector)) if paths.selector else ""
    if selector:
        status["selector"] = selector
    spec = {"replicas": wanted} if wanted else {}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def with_scale(resource: Resource, paths: ScalePaths, record: Record, scale: Any) -> Object:
    """Return a stored object with as many replicas as `scale` asks for; refuse (400, 422) what is no number of them."""
    replicas = value_at(scale, ("spec", "replicas"))
    replicas = 0 if replicas is None else replicas
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise errors.bad_request(
            'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal into Go struct field '
            "ScaleSpec.spec.replicas of type int32"
        )
    if replicas < 0:
        problem = errors.FieldProblem.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise errors.invalid("autoscaling", "Scale", record.name, [problem])
    version = value_at(scale, ("metadata", "resourceVersion"))
    if version and version != str(record.version):
        raise errors.conflict(resource.storage_group, resource.plural, record.name)
    obj = record.decode()
    place = obj
    for step in paths.wanted[:-1]:
        place = place.setdefault(step, {})
    place[paths.wanted[-1]] = replicas
    return obj


def value_at(obj: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path inside an object; None if it is absent."""
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def selector_text(selector: Any) -> str:
    """Return a label selector as text; the selector of a custom resource is text already."""
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    plain = selector if all(isinstance(value, str) for value in selector.values()) else selector.get("matchLabels", {})
    parts = [f"{key}={value}" for key, value in sorted(plain.items())]
    for one in selector.get("matchExpressions") or ():
        operator, key = one.get("operator"), one.get("key")
        if operator in _SYMBOLS:
            parts.append(f"{key} {_SYMBOLS[operator]} ({','.join(sorted(one.get('values') or ()))})")
        else:
            parts.append(key if operator == "Exists" else f"!{key}")
    return ",".join(parts)
