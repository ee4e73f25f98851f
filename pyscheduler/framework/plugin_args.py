"""Declare the args that a plugin takes.

A plugin names an attrs class as its `args_type`. `pyscheduler.config` creates an object of this class from the
configuration file:

* The attribute `some_name` has the key `someName` in the file.
* An attribute without a default is required. A key with the value `null` counts as missing.
* An attribute of type `Duration` holds seconds, and the file has text such as `1m30s`. The attribute
  `filter_timeout_seconds` has the key `filterTimeout`.
* An attribute of type `Quantity` holds an amount of a resource, written like `500m`, `1.5Gi` or `2`.
* The metadata `wire(...)` changes the key of an attribute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

from kube_objects.quantity import Quantity
from pyscheduler.moved import moved_names

__all__ = ["Duration", "Float32", "Int32", "Quantity", "wire"]

#: Seconds, written in Go's way in a file: `"15s"`, `"1m30s"`, `"100ms"`.
Duration: TypeAlias = Annotated[float, "duration"]

#: An integer that fits 32 bits; a plain `int` must fit 64.
Int32: TypeAlias = Annotated[int, "int32"]

#: A number in single precision; a plain `float` has double.
Float32: TypeAlias = Annotated[float, "float32"]


def wire(*, key: str = "", zero_is_unset: bool = False, omit_empty: bool = False) -> dict[str, object]:
    """Return metadata for `attrs.field` that says how a file spells the attribute.

    `key` is its key where the general rule does not give it. `zero_is_unset`: 0, `""` and an empty list mean the
    default. `omit_empty`: left out when shown with nothing in it.
    """
    return {"key": key, "zero_is_unset": zero_is_unset, "omit_empty": omit_empty}


if not TYPE_CHECKING:  # type checkers would accept every name
    _IN_TREE = (
        "IN_TREE_ARGS DefaultPreemptionArgs DynamicResourcesArgs InterPodAffinityArgs NodeAffinityArgs"
        " NodeResourcesBalancedAllocationArgs NodeResourcesFitArgs PodTopologySpreadArgs RequestedToCapacityRatio"
        " ResourceSpec ScoringStrategy UtilizationShapePoint VolumeBindingArgs"
    )
    __getattr__ = moved_names(__name__, dict.fromkeys(_IN_TREE.split(), "pyscheduler.framework.in_tree_args"))
