"""Read files of test cases for batch schedulers, run the test cases, and return the results."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from kube_testserver.manifests import UNREADABLE
from pyscheduler.cli.case_file import case_bytes
from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["answer_batch_cases", "answer_queue_cases"]

Json = dict[str, Any]

_HERE: Final = "pyscheduler_lab.simulation.batch_cases"
#: By the first word of `algorithm` in a file of queue cases.
_QUEUE_SYSTEMS: Final = {"kai": "kai_queues", "volcano": "volcano", "kube": "volcano"}


def answer_batch_cases(path: str) -> Iterator[Json]:
    """Return the answer to each line of a file: `{"id", "actual"}`, or `{"id", "error"}`.

    A file whose name ends in `.gz` is decompressed. Raises `ConfigError` if the file cannot be read.
    """
    for number, line in enumerate(case_bytes(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            case = msgspec.json.decode(line, type=Json)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield {"id": f"line {number}", "error": str(error)}
            continue
        yield _answer(case, f"line {number}", lambda each: _function(_system_of(each), "run_case")(each))


def answer_queue_cases(path: str) -> Iterator[Json]:
    """Return the answer to each case of a YAML file with a list `cases`: `{"id", "actual"}`, or `{"id", "error"}`.

    Raises `ConfigError` if the file cannot be read.
    """
    try:
        content = yaml.safe_load(case_bytes(path))
    except UNREADABLE as error:
        raise ConfigError(f"the file with cases is not YAML: {' '.join(str(error).split())}", source=path) from error
    cases = content.get("cases") if isinstance(content, dict) else None
    if not isinstance(cases, list):
        raise ConfigError('the file with cases has no list "cases"', source=path)
    for number, case in enumerate(cases, start=1):
        yield _answer(case, f"case {number}", _run_queue_case)


def _answer(case: Any, name: object, run: Callable[[Json], Json]) -> Json:
    """Return the answer to a case; an error in the case is its answer. `name` names a case without a usable id."""
    if not isinstance(case, dict):
        return {"id": name, "error": "a case is an object"}
    if not isinstance(case.get("id"), dict | list | set | None):
        name = case["id"]
    # The answer must not depend on what is expected.
    given = {key: value for key, value in {**case, "id": name}.items() if key != "expected"}
    try:
        return {"id": name, **msgspec.to_builtins(run(given), str_keys=True)}
    except (ConfigError, ImportError) as error:
        why = str(error)
    except KeyError as error:
        why = f"a field or a name is missing: {error}"
    except Exception as error:  # noqa: BLE001 - a wrong value shows anywhere, and must not end the file
        why = f"a field has a wrong type or value: {error}"
    return {"id": name, "error": why}


def _system_of(case: Json) -> str:
    """Return the module for a case: those of Volcano have a configuration file, those of KAI a list of actions."""
    if "configuration" in case:
        return "volcano"
    if "actions" in case:
        return "kai"
    raise ConfigError('the case has neither "actions" (KAI) nor "configuration" (Volcano)')


def _run_queue_case(case: Json) -> Json:
    algorithm = str(case.get("algorithm"))
    module = _QUEUE_SYSTEMS.get(algorithm.partition("-")[0])
    if module is None:
        raise ConfigError(f'no algorithm named "{algorithm}"')
    return _function(module, "run_queue_case")(case)


def _function(module: str, name: str) -> Callable[[Json], Json]:
    found: Callable[[Json], Json] = getattr(import_module(f"{_HERE}.{module}"), name)
    return found
