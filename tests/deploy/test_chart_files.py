"""The files of the chart: profiles and their permissions, values and their schema. Helm is not needed here."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from pyscheduler.cli.offline_scheduler import offline_scheduler
from pyscheduler.config.feature_gates import parse
from pyscheduler.config.load import load, loads
from pyscheduler.runtime.assembly.discovery import discover
from tests.deploy.chart import CHART, PROFILES, REFERENCE, SCHEMA, VALUES, made, reference
from tests.deploy.conftest import ROOT


def test_the_profiles_are_those_of_the_repository() -> None:
    """The chart has a file for each configuration, and the schema offers each by its name."""
    found = {path.stem for path in (CHART / "files/profiles").iterdir()}
    assert found == set(PROFILES) == set(SCHEMA["properties"]["profile"]["enum"])
    comments = (CHART / "values.yaml").read_text(encoding="utf-8")
    listed = comments.partition("# A file of `configs/` by its name: ")[2].partition(". Its permissions")[0]
    assert set(listed.replace("\n#", "").replace(" or ", ", ").split(", ")) == set(PROFILES)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_is_what_the_command_prints(profile: str) -> None:
    """Its text is the file of `configs`, and its rules are those that the code needs."""
    text = (CHART / f"files/profiles/{profile}.yaml").read_text(encoding="utf-8")
    assert text == made(profile), "stale: python -m tests.deploy.chart --write"
    values = yaml.safe_load(text)
    assert values["config"] == PROFILES[profile].read_text(encoding="utf-8")
    gates = parse(values["featureGates"])
    config = loads(values["config"], source=str(PROFILES[profile]), gates=gates)
    assert config == load(PROFILES[profile], gates=gates)
    offline_scheduler(config, discover(), gates=gates)


def test_the_versions_are_those_of_the_distribution() -> None:
    """The chart installs the image of its own version."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert chart["version"] == chart["appVersion"] == version
    assert chart["apiVersion"] == "v2"


def keys_of(values: Mapping[str, Any], schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each key of the values that the schema lacks, and each key of the schema without a value."""
    known = schema.get("properties")
    if known is None:
        return
    for key in sorted({*values, *known}):
        here = f"{path}.{key}"
        if key not in values or key not in known:
            yield here, "values" if key in values else "schema"
        elif isinstance(values[key], dict):
            yield from keys_of(values[key], known[key], here)


def test_each_value_has_a_default_and_a_place_in_the_schema() -> None:
    """Values and schema have the same keys, and an object of the schema admits no other."""
    assert list(keys_of(VALUES, SCHEMA)) == []
    assert list(keys_of({**VALUES, "replicaz": 2}, SCHEMA)) == [(".replicaz", "values")]
    waiting = [SCHEMA]
    while waiting:
        schema = waiting.pop()
        assert "properties" not in schema or schema["additionalProperties"] is False
        waiting += [*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])]


def test_the_reference_of_the_values_is_made_from_the_schema() -> None:
    """It has each value with its default."""
    assert REFERENCE.read_text(encoding="utf-8") == reference(), "stale: python -m tests.deploy.chart --write"
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.*?) \|", reference(), re.MULTILINE))
    assert rows["image.pullPolicy"] == '`"IfNotPresent"`'
    assert rows["shards[].name"] == "required"
    assert rows["shards[].queues[].spec"] == ""
    assert rows["replicas"] == "`2`"
