"""Random commands, rollbacks and expiry: the table and a plain model of it agree, at every retained snapshot."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.spark.changes.layouts import WAYS
from tests.spark.changes.random_commands import RandomCommands


def _run(spark, lake, version, mode, examples, steps):
    machine = type(f"V{version}", (RandomCommands,), {"spark": spark, "lake": lake, "version": version, "mode": mode})
    some = settings(max_examples=examples, stateful_step_count=steps, phases=[Phase.explicit, Phase.generate])
    run_state_machine_as_test(machine, settings=some)


@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_table_and_model_agree(spark, lake, version, mode):
    _run(spark, lake, version, mode, examples=3, steps=5)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "mode"), WAYS)
def test_table_and_model_agree_for_long(spark, lake, version, mode):
    _run(spark, lake, version, mode, examples=int(os.environ.get("FRAZIL_EXAMPLES", "12")), steps=12)
