"""docs/usage.md is true: its examples load, its commands parse, its tables say what the code says."""

from __future__ import annotations

import inspect
import re
import shlex
from typing import Any

import pytest
import yaml
from airflow.cli import cli_parser
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

import rayflight.airflow as product
from rayflight.airflow import PlanFlight, SubmitRayJob, forms, training_run
from rayflight.specs import JobSpec, ScriptVariable, TeardownPolicy, load_cluster
from tests.unit.docs.documents import DOCS, blocks, tables

ROOT = DOCS.parent
TEXT = (DOCS / "usage.md").read_text()
PYTHON = blocks("usage.md", "python")
COMMANDS = [line for block in blocks("usage.md", "console") for line in block.splitlines()]


def dags_of(source: str) -> list[DAG]:
    """Run the example as a file of the dags folder."""
    names: dict[str, Any] = {"__file__": str(ROOT / "dags" / "example.py")}
    exec(compile(source, "docs/usage.md", "exec"), names)
    return [value for value in names.values() if isinstance(value, DAG)]


def test_there_are_examples():
    assert (len(PYTHON), len(COMMANDS)) == (6, 4)


@pytest.mark.parametrize("source", PYTHON)
def test_an_example_is_a_dag_that_airflow_takes_and_plan_accepts(source: str):
    for dag in dags_of(source):
        DagSerialization.from_dict(DagSerialization.to_dict(dag))
        for task in dag.tasks:
            if isinstance(task, PlanFlight) and task.cluster is not None:
                load_cluster(task.cluster)
                forms.changes({key: value for key, value in (task.resize or {}).items() if "{{" not in str(value)})
                TeardownPolicy.parse(task.teardown)
            if isinstance(task, (PlanFlight, SubmitRayJob)) and task.job:
                the_job(task.job)


def the_job(data: Any) -> None:
    fields = forms.job(data)
    # What a mapped item will be is not known here.
    fields["env"] = {key: value for key, value in fields.get("env", {}).items() if isinstance(value, str)}
    JobSpec.parse(fields).require_files()


@pytest.mark.parametrize("text", blocks("usage.md", "yaml job"))
def test_an_example_of_a_job_is_accepted(text: str):
    JobSpec.parse(yaml.safe_load(text))


@pytest.mark.parametrize("text", blocks("usage.md", "yaml teardown"))
def test_an_example_of_a_teardown_is_accepted(text: str):
    TeardownPolicy.parse(yaml.safe_load(text))


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_is_understood_by_airflow(line: str):
    words = shlex.split(line)
    assert words[0] == "airflow"
    assert callable(cli_parser.get_parser().parse_args(words[1:]).func)


def test_the_parameters_of_training_run_and_their_defaults():
    parameters = inspect.signature(training_run).parameters
    defaults = {
        name: "empty" if found.kind is found.VAR_KEYWORD else shown(found.default) for name, found in parameters.items()
    }
    assert {name.strip("*"): cells[0] for name, cells in tables("usage.md")["training_run"].items()} == defaults


def shown(default: object) -> str:
    if default is inspect.Parameter.empty:
        return "required"
    if default is None:
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def test_the_environment_of_scripts():
    documented = dict(re.findall(r"^\| `(RAYFLIGHT_\w+)` \| (.*) \|$", TEXT, re.MULTILINE))
    assert documented == {variable.value: variable.meaning for variable in ScriptVariable}


def test_every_class_that_a_dag_can_use_is_named():
    documented = set(re.findall(r"^\| `([A-Z][a-z]\w+)` \|", TEXT, re.MULTILINE))
    assert documented == set(product.__all__) - {"training_run", "verified_pool", "DiagnosisRetryPolicy"}


@pytest.mark.parametrize("document", ["README.md", "docs/usage.md", "docs/shapes.md"])
def test_links_lead_somewhere(document: str):
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_readme_leads_here():
    assert "docs/usage.md" in (ROOT / "README.md").read_text()


def test_a_keyword_that_training_run_does_not_know_is_refused_by_its_name():
    with DAG("typo"), pytest.raises(TypeError, match=r"training_run\(\) .* 'retrys', did you mean 'retries'\?"):
        training_run(cluster="gpu-2x1", job=None, retrys=3)
    with DAG("known"):
        training_run(cluster="gpu-2x1", job=None, deferrable=False, queue="gpu", pool="gpus", pool_slots=2)
