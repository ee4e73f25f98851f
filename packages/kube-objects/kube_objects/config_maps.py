"""The type ConfigMap. Plugins use ConfigMaps for data that must survive a restart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kube_objects.meta import KubeObject


class ConfigMap(KubeObject):
    """Texts, and binary data in base64, by key."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ConfigMap"

    data: Mapping[str, str] = {}
    binary_data: Mapping[str, str] = {}
