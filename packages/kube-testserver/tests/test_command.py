"""The command `kube-testserver`: a server in a process of its own."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from base64 import b64decode
from pathlib import Path

import pytest
import yaml

CONFIG_MAP = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: team}, data: {a: '1'}}"

pytestmark = pytest.mark.slow


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start the command."""
    command = (sys.executable, "-c", "from kube_testserver.command import main; main()", "--port", "0")
    pipe = subprocess.PIPE
    return subprocess.Popen([*command, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_server_is_secure_and_loaded_and_ends_with_its_parent(tmp_path: Path) -> None:
    """It loads files, writes a kubeconfig with CA and token, prints its address, and ends when its input is closed."""
    pytest.importorskip("trustme")
    (tmp_path / "objects.yaml").write_text(CONFIG_MAP)
    kubeconfig = tmp_path / "kubeconfig"
    options = (
        "--tls",
        "--authorization",
        "rbac",
        "--controllers",
        "--stop-with-stdin",
        "--write-kubeconfig",
        kubeconfig,
    )
    process = start("--load", tmp_path / "objects.yaml", *options)
    assert process.stdout is not None
    told = process.stdout.readline().split()
    config = yaml.safe_load(kubeconfig.read_text())
    assert told == ["serving", config["clusters"][0]["cluster"]["server"], "objects=1"]
    authority = b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    request = urllib.request.Request(
        f"{told[1]}/api/v1/namespaces/team/configmaps/c",
        headers={"Authorization": f"Bearer {config['users'][0]['user']['token']}"},
    )
    with urllib.request.urlopen(request, context=ssl.create_default_context(cadata=authority), timeout=60) as answer:
        assert json.load(answer)["data"] == {"a": "1"}
    printed, _ = process.communicate(timeout=60)
    assert (process.returncode, printed) == (0, "")


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    """A file that cannot be read ends the command with a line that names it."""
    process = start("--load", tmp_path / "none.yaml")
    _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert told == (
        f"error: --load: {tmp_path / 'none.yaml'} cannot be read: No such file or directory; name a file of manifests\n"
    )
