"""`pyscheduler plugins` names the args of each plugin, also of one whose args cannot be read."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pyscheduler.cli.plugins import _args_of
from pyscheduler.runtime.assembly.registry import PluginDescription


@attrs.frozen
class Args:
    """Args."""

    max_nodes: int = 3


@pytest.mark.parametrize(
    ("args_type", "shown"),
    [
        pytest.param(Args, ["maxNodes"], id="attrs"),
        pytest.param(dict, ["dict"], id="another class"),
        pytest.param("Args", ["'Args'"], id="text"),
        pytest.param(Args(), ["Args(max_nodes=3)"], id="object"),
    ],
)
def test_args_are_shown_as_far_as_they_can_be_read(args_type: Any, shown: list[str]) -> None:
    """A wrong `args_type` of one plugin does not end the list of all plugins."""
    row = PluginDescription(name="P", distribution="d", version="1", target="m:P", args_type=args_type)
    assert _args_of(row) == shown
