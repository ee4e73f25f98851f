"""Commands in the process of the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from pyscheduler.cli.leader import Leader
from pyscheduler.cli.main import main

if TYPE_CHECKING:
    from kube_testserver.test_server import TestServer

#: Runs `pyscheduler` with the given arguments; returns exit code, output and complaints.
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Return a function that runs `pyscheduler`."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            main([*map(str, arguments)])
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return run


@pytest.fixture
def no_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `explain` find no leader."""

    async def find_leader(*_: object, **__: object) -> Leader:
        return Leader(why="the leader was not found")

    monkeypatch.setattr("pyscheduler.cli.leader_story.find_leader", find_leader)


def explain_as(server: TestServer, run: Run, folder: Path, namespace: str) -> Run:
    """Return a function that runs `explain` as a service account of a namespace; "" is the administrator.

    The context of the kubeconfig has the namespace. Between the words of tables is one space.
    """

    def explain(user: str, *arguments: object) -> tuple[int, str, str]:
        config = yaml.safe_load(Path(server.kubeconfig).read_text())
        config["contexts"][0]["context"]["namespace"] = namespace
        if user:
            token = server.run(lambda cluster: cluster.account_token(namespace, user))
            config["users"][0]["user"] = {"token": token}
        file = folder / "kubeconfig"
        file.write_text(yaml.safe_dump(config))
        code, out, err = run("explain", "--kubeconfig", file, *arguments)
        return code, " ".join(out.split()) if "json" not in arguments else out, err

    return explain
