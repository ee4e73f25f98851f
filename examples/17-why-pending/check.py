"""Ask why each pod of answers.yaml waits, and check that the answer has the expected words.

First, `python check.py wait` waits until the scheduler has tried the pods. Then run one of these:

- `python check.py explain` asks `pyscheduler explain`
- `python check.py story` asks the scheduler's page `/debug/story`
- `python check.py history LOGS` asks `pyscheduler explain --history`, which reads collected logs
"""

from __future__ import annotations

import json
import os
import shlex
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import yaml
from kubernetes import client, config

FOLDER = Path(__file__).parent
ANSWERS: list[dict[str, Any]] = yaml.safe_load((FOLDER / "answers.yaml").read_text())
#: Pods to which no scheduler writes a condition.
UNSEEN = {"nobody", "web-0", "report", "database"}
SECONDS = 120


def is_settled(api: client.CoreV1Api) -> bool:
    """Return True once each pod has its condition, the victim is being evicted, and the Deployment has no pod."""
    pods = api.list_pod_for_all_namespaces().items
    waiting = [pod for pod in pods if pod.metadata.name not in UNSEEN]
    return (
        any(pod.metadata.name == "database" and pod.metadata.deletion_timestamp for pod in pods)
        and any(event.reason == "FailedCreate" for event in api.list_namespaced_event("team-a").items)
        and all(any(each.type == "PodScheduled" for each in pod.status.conditions or ()) for pod in waiting)
    )


def wait() -> bool:
    """Wait until the scheduler has tried each pod."""
    config.load_kube_config()
    until = time.monotonic() + SECONDS
    while not is_settled(client.CoreV1Api()):
        if time.monotonic() > until:
            click.echo(f"not all pods have a condition after {SECONDS} s", err=True)
            return False
        time.sleep(0.2)
    return True


def explained(answer: dict[str, Any]) -> str:
    """Return what `explain` prints. It takes the configuration from the leader."""
    return printed("pyscheduler", "explain", *shlex.split(answer["explain"]))


def story(answer: dict[str, Any]) -> str:
    """Return the story of a pod; it needs the permission to get pods in its namespace, and nothing else."""
    users = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())["users"]
    address = urlsplit(os.environ["PYSCHEDULER_URL"])
    # The scheduler makes its certificate at its start, for this machine only.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = HTTPSConnection(address.hostname or "", address.port, context=context)
    path = f"/debug/story/default/{answer['explain']}"
    connection.request("GET", path, headers={"Authorization": f"Bearer {users[0]['user']['token']}"})
    page = json.load(connection.getresponse())
    connection.close()
    return json.dumps(page, indent=2).replace('\\"', '"')


def history(answer: dict[str, Any], logs: str) -> str:
    """Return the story of a pod that collected logs tell."""
    return printed("pyscheduler", "explain", "--history", answer["explain"], "--from", logs)


def printed(*command: str) -> str:
    """Show a command and return what it prints."""
    click.echo(f"$ {shlex.join(command)}")
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout + done.stderr + (f"exit code {done.returncode}" if done.returncode else "")


def check(ask: Callable[[dict[str, Any]], str], words: str) -> bool:
    """Ask about each pod; return True if no answer lacks a word."""
    complete = True
    for answer in ANSWERS:
        if not answer[words]:
            continue
        click.echo(f"\n## {answer['cause']}")
        text = ask(answer)
        click.echo(text)
        flat = " ".join(text.split())
        lacking = [word for word in answer[words] if word not in flat]
        if lacking or "exit code" in flat:
            complete = False
            click.echo(f"error: {answer['cause']}: lacks {lacking}", err=True)
    return complete


def main(what: str, *arguments: str) -> int:
    """Do what the argument says; return the exit code."""
    ways: dict[str, Callable[[], bool]] = {
        "wait": wait,
        "explain": lambda: check(explained, "words"),
        "story": lambda: check(story, "story"),
        "history": lambda: check(lambda answer: history(answer, *arguments), "story"),
    }
    return not ways[what]()


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
