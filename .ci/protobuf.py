r"""Write the table of protobuf field numbers for kube-testserver.

    python .ci/protobuf.py KUBERNETES/staging/src/k8s.io \
        packages/kube-testserver/kube_testserver/protobuf/fields.json.gz

KUBERNETES is a checkout of the Kubernetes repository.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from pathlib import Path

#: The packages of the kinds that are served, or that somebody may come to serve, all in version v1.
GROUPS = (
    "apps",
    "authentication",
    "authorization",
    "autoscaling",
    "batch",
    "coordination",
    "core",
    "events",
    "policy",
    "rbac",
    "resource",
    "scheduling",
    "storage",
)
#: Names under which Go files import other packages.
_IMPORTED = {"v1": "core", "corev1": "core", "apiv1": "core", "metav1": "meta", "batchv1": "batch"}
_SCALARS = {
    **dict.fromkeys(("string", "types.UID", "types.NodeName"), "s"),
    **dict.fromkeys(("int", "int32", "int64", "uint32", "uint64"), "i"),
    "bool": "t",
    "float64": "f",
    "[]byte": "b",
}
#: Types that JSON writes in a way of their own.
_OWN_FORM = {
    "meta.Time": "@time",
    "meta.MicroTime": "@micro",
    "meta.Duration": "@duration",
    "meta.FieldsV1": "@fields",
    "resource.Quantity": "@quantity",
    "intstr.IntOrString": "@intstr",
    "runtime.RawExtension": "@raw",
    "authentication.ExtraValue": "@items",
    "authorization.ExtraValue": "@items",
}
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) (?!struct|interface)=?\s*([\w\[\].*]+)", re.MULTILINE)
_FIELD = re.compile(r"\s*(?:\w+\s+)?([*\w.\[\]]+)\s+`([^`]*)`")
_KIND = 'metav1.TypeMeta `json:",inline"`'


class Types:
    """The structs and named types of all packages, by package and name."""

    def __init__(self, folder: Path) -> None:
        self.structs: dict[str, str] = {}
        self.named: dict[str, str] = {}
        for group in GROUPS:
            self._load(folder / "api" / group / "v1" / "types.go", group)
        self._load(folder / "apimachinery/pkg/apis/meta/v1/types.go", "meta")
        self.wanted = {name for name, body in self.structs.items() if _KIND in body and not name.endswith("List")} | {
            "meta.DeleteOptions"
        }

    def _load(self, file: Path, package: str) -> None:
        source = file.read_text(encoding="utf-8")
        self.structs |= {f"{package}.{name}": body for name, body in _STRUCT.findall(source)}
        self.named |= {f"{package}.{name}": target for name, target in _NAMED.findall(source)}

    def form(self, written: str, package: str) -> str:
        """Return the form of a type as a field of `package` writes it; a struct is wanted from then on."""
        if written.startswith("*"):
            return "*" + self.form(written[1:], package)
        if written in _SCALARS:
            return _SCALARS[written]
        if written.startswith("[]"):
            return "[" + self.form(written[2:], package)
        if written.startswith("map["):
            return "{" + self.form(written.partition("]")[2], package)
        prefix, _, name = written.rpartition(".")
        full = f"{_IMPORTED.get(prefix, prefix) if prefix else package}.{name}"
        if full in _OWN_FORM:
            return _OWN_FORM[full]
        if full in self.structs:
            self.wanted.add(full)
            return full
        return self.form(self.named[full], full.partition(".")[0])

    def fields(self, name: str) -> dict[str, tuple[str, str]]:
        """Return name and form of a struct's fields by their number."""
        found = {}
        for line in self.structs[name].splitlines():
            field = _FIELD.match(line)
            number = re.search(r'protobuf:"\w+,(\d+)', field[2]) if field else None
            shown = re.search(r'json:"([^",]*)', field[2]) if field else None
            if field and number and shown:
                found[number[1]] = (shown[1], self.form(field[1], name.partition(".")[0]))
        return found


def main() -> None:
    """Write the table of all structs that a kind leads to."""
    types = Types(Path(sys.argv[1]))
    table: dict[str, dict[str, tuple[str, str]]] = {}
    while left := sorted(types.wanted - table.keys()):
        for name in left:
            table[name] = types.fields(name)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
        file.write(json.dumps(table, separators=(",", ":"), sort_keys=True).encode())
    Path(sys.argv[2]).write_bytes(packed.getvalue())


main()
