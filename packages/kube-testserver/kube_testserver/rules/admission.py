"""Admission: check and complete an object by looking at other objects.

For example, the namespace of a new object must exist, and a new pod gets the priority of its class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_testserver import errors
from kube_testserver.resources import builtin
from kube_testserver.resources.devices import CLAIM_TEMPLATES, CLAIMS
from kube_testserver.rules.devices.validation import admin_request, admin_result
from kube_testserver.rules.pod_groups import POD_GROUPS

if TYPE_CHECKING:
    from kube_testserver.resources.table import Resource
    from kube_testserver.store import Object, Store

__all__ = ["Admission"]

_ADMIN_LABEL: Final = "resource.kubernetes.io/admin-access"
_DEFAULT_PREEMPTION: Final = "PreemptLowerPriority"


class Admission:
    """Checks and completes new objects against what is stored.

    Differs from the real server: a pod or PodGroup that names no PriorityClass keeps the `spec.priority` it came with,
    where the real one refuses it, so that a trace or test can set priorities without making classes.
    """

    __slots__ = ("_default_class", "_default_known", "_namespaces", "_priority_classes")

    def __init__(self, store: Store) -> None:
        self._namespaces = store.collection(builtin.NAMESPACES.collection)
        self._priority_classes = store.collection(builtin.PRIORITY_CLASSES.collection)
        self._default_class: Object | None = None
        self._default_known = False
        self._priority_classes.listen(self._forget_default)

    def admit_creation(self, resource: Resource, obj: Object) -> None:
        """Refuse a new object whose namespace is missing or going (404, 403); complete a pod's priority."""
        metadata = obj["metadata"]
        if resource.namespaced:
            namespace = self._namespaces.get(metadata["namespace"])
            if namespace is None:
                raise errors.not_found("", "namespaces", metadata["namespace"])
            if namespace.fields.get("status.phase") == "Terminating":
                raise errors.forbidden(
                    resource.storage_group,
                    resource.plural,
                    metadata.get("name", ""),
                    f"unable to create new content in namespace {metadata['namespace']} because it is being terminated",
                )
        if resource.collection == builtin.PODS.collection:
            self._give_priority(obj)
        elif resource is POD_GROUPS:
            self._give_group_priority(obj)
        elif resource is CLAIMS:
            path = admin_request(obj.get("spec") or {})
            self._admit_admin(resource, obj, f"spec.{path}" if path else "")
        elif resource is CLAIM_TEMPLATES:
            path = admin_request((obj.get("spec") or {}).get("spec") or {})
            self._admit_admin(resource, obj, f"spec.spec.{path}" if path else "")

    def admit_change(self, resource: Resource, before: Object, obj: Object) -> None:
        """Refuse (422) that a claim is given devices as to an administrator in a namespace that is not for those."""
        if resource is CLAIMS and not admin_result(before):
            self._admit_admin(resource, obj, admin_result(obj))

    def _admit_admin(self, resource: Resource, obj: Object, path: str) -> None:
        """Refuse administrator's access, asked for at a path (empty: not), in a namespace without the label."""
        if not path:
            return
        namespace = self._namespaces.get(obj["metadata"]["namespace"])
        if namespace is None or namespace.labels.get(_ADMIN_LABEL) != "true":
            why = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
            problem = errors.FieldProblem.forbidden(path, why)
            raise errors.invalid(resource.storage_group, resource.kind, obj["metadata"].get("name") or "", [problem])

    def _give_priority(self, pod: Object) -> None:
        spec = pod["spec"]
        name = spec.get("priorityClassName")
        if name:
            record = self._priority_classes.get(name)
            if record is None:
                raise errors.forbidden(
                    "", "pods", pod["metadata"].get("name", ""), f"no PriorityClass with name {name} was found"
                )
            chosen = record.decode()
            if spec.get("priority") not in (None, chosen.get("value", 0)):
                raise errors.forbidden(
                    "",
                    "pods",
                    pod["metadata"].get("name", ""),
                    f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority "
                    f"admission controller computed {chosen.get('value', 0)} from the given PriorityClass name",
                )
        else:
            default = self._find_default() if spec.get("priority") is None else None
            if default is not None:
                spec["priorityClassName"] = default["metadata"]["name"]
            chosen = default or {"value": spec.get("priority") or 0}
        spec["priority"] = chosen.get("value", 0)
        if spec.get("preemptionPolicy") is None:
            spec["preemptionPolicy"] = chosen.get("preemptionPolicy") or _DEFAULT_PREEMPTION

    def _give_group_priority(self, group: Object) -> None:
        """Complete the priority of a PodGroup, as with the gate WorkloadAwarePreemption."""
        spec, name = group["spec"], group["metadata"].get("name", "")
        class_name, given = spec.get("priorityClassName"), spec.get("priority")
        if class_name:
            record = self._priority_classes.get(class_name)
            if record is None:
                why = f"no PriorityClass with name {class_name} was found"
                raise errors.forbidden(POD_GROUPS.group, POD_GROUPS.plural, name, why)
            value = record.decode().get("value", 0)
            if given not in (None, value):
                why = (
                    f"priority set in the pod group ({given}) must match the priority computed ({value}) based on the "
                    "priority class set in the spec"
                )
                raise errors.forbidden(POD_GROUPS.group, POD_GROUPS.plural, name, why)
            spec["priority"] = value
        elif given is None and (default := self._find_default()) is not None:
            spec["priorityClassName"] = default["metadata"]["name"]
            spec["priority"] = default.get("value", 0)

    def _find_default(self) -> Object | None:
        """Return the class marked as the default; of several, the one of lowest value, as the real server does."""
        if not self._default_known:
            classes = [record.decode() for record in self._priority_classes.page().records]
            marked = [one for one in classes if one.get("globalDefault")]
            self._default_class = min(marked, key=lambda one: one.get("value", 0), default=None)
            self._default_known = True
        return self._default_class

    def _forget_default(self) -> None:
        self._default_known = False
