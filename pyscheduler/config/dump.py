"""Print a configuration as YAML or JSON, with the keys and the spelling of kube-scheduler's `/configz`."""

from __future__ import annotations

import base64
import enum
import json
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
import yaml

from kube_objects.durations import format_duration
from kube_objects.quantity import Quantity
from pyscheduler.api import NodeAffinity
from pyscheduler.config.fields import Field, fields_of, is_record
from pyscheduler.config.types import API_VERSION, KIND, Configuration, PluginConfig
from pyscheduler.config.yaml_text import resolve
from pyscheduler.framework.in_tree_args import IN_TREE_ARGS

__all__ = ["dump", "encode", "to_data", "to_json"]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def dump(configuration: Configuration, *, sort_keys: bool = False) -> str:
    """Return `configuration` as YAML; with `sort_keys`, as `--write-config-to` writes it."""
    return yaml.dump(
        to_data(configuration), Dumper=_Dumper, sort_keys=sort_keys, default_flow_style=False, allow_unicode=True
    )


def to_json(configuration: Configuration) -> bytes:
    """Return `configuration` as JSON, as kube-scheduler serves it at `/configz`."""
    return json.dumps({"componentconfig": to_data(configuration)}, ensure_ascii=False).encode()


def to_data(configuration: Configuration) -> dict[str, object]:
    """Return `configuration` as plain values, `kind` and `apiVersion` first."""
    return {"kind": KIND, "apiVersion": API_VERSION, **_record(configuration)}


def encode(value: object) -> object:
    """Return any value of a configuration as plain values, including the args of plugins."""
    if isinstance(value, PluginConfig):
        return {"name": value.name, "args": _args(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, NodeAffinity):
        return _node_affinity(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if is_record(type(value)):
        return _record(value)
    if isinstance(value, bytes | Quantity):
        return value.text if isinstance(value, Quantity) else base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str):
        return [encode(item) for item in value]
    # Go prints a float without a fraction as an integer.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _node_affinity(affinity: NodeAffinity) -> dict[str, Any]:
    """Return node affinity with the empty fields that Go prints."""
    shown: dict[str, Any] = msgspec.to_builtins(affinity)
    if (required := shown.get(_REQUIRED)) is not None:
        required.setdefault("nodeSelectorTerms", None)
    if terms := shown.get(_PREFERRED):
        shown[_PREFERRED] = [{"weight": 0, "preference": {}, **term} for term in terms]
    return shown


def _args(config: PluginConfig) -> object:
    args = encode(config.args)
    if config.name in IN_TREE_ARGS and isinstance(args, dict):
        return {"kind": f"{config.name}Args", "apiVersion": API_VERSION, **args}
    return args


def _record(value: Any) -> dict[str, object]:
    shown = {}
    kind: Any = type(value)
    for key, field in fields_of(kind).items():
        item = getattr(value, field.attribute)
        if field.omit_empty and _is_empty(field, item):
            continue
        shown[key] = format_duration(item) if field.duration and item is not None else encode(item)
    return shown


def _is_empty(field: Field, item: object) -> bool:
    """Return True if Go omits the field: a nil pointer, or a zero value."""
    return item is None if field.optional else not item


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc] # with libyaml or without
    """Writes text so that Go's YAML library, which reads `y` as a boolean and `1e3` as a number, reads it as text."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Return the node for a text, quoted if it would be read as another type."""
        style = None if resolve(text) is text else "'"
        node: yaml.ScalarNode = self.represent_scalar("tag:yaml.org,2002:str", text, style=style)
        return node

    def ignore_aliases(self, _: Any) -> bool:
        """Return True: repeated values are written in full, as kube-scheduler does."""
        return True


_Dumper.add_representer(str, _Dumper.represent_text)
