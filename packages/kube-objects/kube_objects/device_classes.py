"""Python types for DeviceClass, and for the selectors by which a class or a claim chooses devices.

Source: Kubernetes 1.36, `resource.k8s.io/v1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from kube_objects.meta import KubeObject, Wire


class CELDeviceSelector(Wire):
    """An expression in CEL over one device."""

    expression: str = ""


class DeviceSelector(Wire):
    """One condition on a device; the form ``cel`` is the only one so far, ``None`` is a form not known here."""

    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(Wire):
    """Parameters for a driver, of whatever shape it reads; an empty object is not the same as none."""

    driver: str = ""
    parameters: Mapping[str, Any] | msgspec.UnsetType = msgspec.UNSET


class DeviceClassConfiguration(Wire):
    """The configuration of devices of a class; only the driver reads it."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Wire):
    """Which devices are of the class, and how they are set up."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(KubeObject):
    """A kind of device that claims can ask for by name."""

    api_version: ClassVar[str] = "resource.k8s.io/v1"
    kind: ClassVar[str] = "DeviceClass"

    spec: DeviceClassSpec = DeviceClassSpec()
