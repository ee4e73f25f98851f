"""What users get wrong at start: exit code 1 and one line for each mistake, never a traceback."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from kube_pyscheduler import main
from lab.tests.conftest import hooks, install
from tests.integration.programs import program

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
#: Nothing listens on the port of the TCP multiplexer.
NOBODY = "http://127.0.0.1:1"


async def mistakes(*arguments: str, env: Mapping[str, str] | None = None) -> list[str]:
    """Run the program, which has to fail; return what it said was wrong."""
    async with program(*arguments, env=env) as failed:
        code = await failed.ended()
    return complaints(code, failed.err)


def complaints(code: object, lines: list[str]) -> list[str]:
    """Check how a program failed, and return what it said was wrong."""
    told = [line for line in lines if line.startswith("error: ")]
    assert code == 1, lines
    # Warnings may come before; nothing may follow, and nothing may be spread over several lines.
    assert lines[-len(told) :] == told, lines
    assert not any("Traceback" in line for line in lines)
    return [line.removeprefix("error: ") for line in told]


@pytest.fixture
def mistakes_here(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Return what does as `mistakes` in this process, for mistakes that are found before `run` sets up signals.

    To start a process for each text takes most of a second of CPU.
    """

    def run(*arguments: str) -> list[str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return complaints(ended.value.code, capsys.readouterr().err.splitlines())

    return run


@pytest.fixture
def config(tmp_path: Path) -> Callable[[str], str]:
    """Return a writer of configuration files."""

    def write(text: str) -> str:
        path = tmp_path / "config.yaml"
        path.write_text(HEADER + text)
        return str(path)

    return write


# Files


@pytest.mark.parametrize("command", ["run", "config", "plugins", "demo"])
async def test_every_mistake_of_a_file_is_told_at_once(command: str, config: Callable[[str], str]) -> None:
    """Each mistake stands on a line of its own, with the file and the place in it."""
    path = config("parallelism: -3\nnonsense: 1\npodInitialBackoffSeconds: 0\n")
    told = await mistakes(command, "--config", path)
    assert [line.rpartition(" @ ")[2] for line in told] == ["$.nonsense", "$.parallelism", "$.podInitialBackoffSeconds"]
    assert all(line.startswith(f"{path}: ") for line in told)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, "cannot be read: No such file or directory", id="missing"),
        pytest.param("kind: Pod\n", "was rejected: ", id="no apiVersion"),
        pytest.param("{a: [", "was rejected: error converting YAML to JSON", id="not YAML"),
        pytest.param(
            "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}",
            'was rejected: Pod "p" is invalid: spec.containers: Required value',
            id="invalid",
        ),
    ],
)
def test_manifests_that_cannot_be_loaded(
    tmp_path: Path, mistakes_here: Callable[..., list[str]], text: str | None, expected: str
) -> None:
    """The line names the file and what is wrong with the object."""
    path = tmp_path / "objects.yaml"
    if text is not None:
        path.write_text(text)
    (told,) = mistakes_here("cluster", "--port", "0", "--load", str(path))
    assert told.startswith(f"--load: {path} {expected}")


async def test_a_trace_that_is_not_there(tmp_path: Path) -> None:
    """The demo says which file it looked for, and how to name another folder."""
    (told,) = await mistakes("demo", "--trace", str(tmp_path))
    assert str(tmp_path / "openb_pod_list_default.csv.gz") in told
    assert "--trace" in told


# Ports and servers


async def test_a_port_in_use() -> None:
    """Server and health port say which address is taken."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        (told,) = await mistakes("cluster", "--port", port)
        assert f"127.0.0.1:{port}" in told
        arguments = ("--bind-address", "127.0.0.1", "--health-port", port)
        (told,) = await mistakes("run", "--master", NOBODY, *arguments)
        assert f"127.0.0.1:{port}" in told
        assert "--health-port" in told


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        pytest.param(
            NOBODY, f"the API server cannot be reached: GET {NOBODY}/api/v1: connection refused", id="refused"
        ),
        pytest.param("http://no-such-host.invalid", "no-such-host.invalid", id="no such host"),
    ],
)
async def test_a_server_that_cannot_be_reached(master: str, expected: str) -> None:
    """One line with the address and the reason from a command that is over in a moment; `run` waits for the server."""
    (told,) = await mistakes("explain", "--master", master, "web")
    assert expected in told


# Plugins


PLUGIN = (
    "from pyscheduler import FilterPlugin\n\n\n"
    "class Mine(FilterPlugin):\n    def filter(self, state, pod, node):\n        return None\n"
)
ENABLED = "profiles:\n- schedulerName: x\n  plugins: {multiPoint: {enabled: [{name: %s}]}}\n"


async def test_a_distribution_that_is_broken(tmp_path: Path, config: Callable[[str], str]) -> None:
    """It is shown with its error; who enables one of its plugins is told that it may be missing for that reason."""
    env = install(tmp_path, "acme", "raise RuntimeError('no licence')\n")
    (told,) = await mistakes("config", "--config", config(ENABLED % "Mine"), env=env)
    assert 'plugin "Mine" does not exist' in told
    assert "acme 1.0 is broken: RuntimeError: no licence" in told
    async with program("plugins", env=env) as shown:
        assert await shown.ended() == 0
    assert "  broken: RuntimeError: no licence" in shown.out


async def test_two_plugins_of_one_name(tmp_path: Path, config: Callable[[str], str]) -> None:
    """The line names both distributions; blocking one is a way out."""
    install(tmp_path, "acme", hooks("Mine", "acme_plugin:Mine"), acme_plugin=PLUGIN)
    env = install(tmp_path, "bolt", hooks("Mine", "bolt_plugin:Mine"), bolt_plugin=PLUGIN)
    path = config(ENABLED % "Mine")
    (told,) = await mistakes("config", "--config", path, env=env)
    assert 'plugin "Mine" is offered by acme 1.0 (acme_plugin:Mine) and bolt 1.0 (bolt_plugin:Mine)' in told
    async with program("config", "--config", path, "--block", "acme", env=env) as fine:
        assert await fine.ended() == 0, fine.err
    async with program("plugins", "--block", "acme", env=env) as shown:
        assert await shown.ended() == 0
    assert "  blocked" in shown.out
