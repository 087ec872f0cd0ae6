"""deploy/monitoring parses and names only metrics that exist: Ray's (installed), DCGM's (documented), ours."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from rayflight import labels
from rayflight.airflow.metrics import METRICS, Metric

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text())
RULES = [
    rule for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["spec"]["groups"] for rule in group["rules"]
]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]
]
# dcgm-exporter's default counters: https://github.com/NVIDIA/dcgm-exporter/blob/main/etc/default-counters.csv
DCGM = {
    f"DCGM_FI_DEV_{name}"
    for name in (
        "SM_CLOCK", "MEM_CLOCK", "MEMORY_TEMP", "GPU_TEMP", "POWER_USAGE", "TOTAL_ENERGY_CONSUMPTION",
        "PCIE_REPLAY_COUNTER", "GPU_UTIL", "MEM_COPY_UTIL", "XID_ERRORS", "FB_FREE", "FB_USED",
        "NVLINK_BANDWIDTH_TOTAL", "UNCORRECTABLE_REMAPPED_ROWS", "CORRECTABLE_REMAPPED_ROWS", "ROW_REMAP_FAILURE",
    )
}  # fmt: skip
DCGM_LABELS = {"UUID", "Hostname", "gpu"}
FUNCTIONS = {
    "avg", "sum", "max", "by", "on", "group_left", "increase", "bool", "label_replace", "histogram_avg",
}  # fmt: skip
GRAFANA = {"__range", "run"}


def ray_source() -> str:
    spec = find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "dashboard"
    files = [
        folder / "consts.py",
        folder / "modules" / "reporter" / "reporter_agent.py",
        *(folder / "modules" / "metrics" / "dashboards").glob("*.py"),
    ]
    return "\n".join(file.read_text() for file in files)


def pod_labels() -> set[str]:
    """As Prometheus writes the labels that the PodMonitor copies."""
    monitor = yaml.safe_load((FOLDER / "podmonitor.yaml").read_text())
    return {re.sub(r"[./-]", "_", name) for name in monitor["spec"]["podTargetLabels"]}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_names_only_what_exists(expression: str) -> None:
    source = ray_source()
    ours = {metric.prometheus for metric in METRICS}
    named = {tag for metric in METRICS for tag in metric.tags}
    recorded = {rule["record"] for rule in RULES if "record" in rule}
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]', " ", expression)
    for name in re.findall(r"[a-zA-Z_][a-zA-Z0-9_:]*", bare):
        if name in ours | recorded | DCGM | named | pod_labels() | DCGM_LABELS | FUNCTIONS | GRAFANA:
            continue
        assert re.search(rf'"{name.removeprefix("ray_")}"', source) or re.search(rf"\b{name}\b", source), name


def test_the_labels_of_ray_that_are_joined_by_exist() -> None:
    for label in ("GpuUuid", "GpuIndex"):
        assert f'"{label}"' in ray_source()


def test_the_pod_monitor_selects_what_rayflight_labels() -> None:
    monitor = yaml.safe_load((FOLDER / "podmonitor.yaml").read_text())
    assert monitor["kind"] == "PodMonitor"
    assert monitor["spec"]["selector"]["matchLabels"] == {labels.MANAGED_BY: labels.MANAGER}
    assert {labels.RUN, labels.FLIGHT, labels.ATTEMPT} <= set(monitor["spec"]["podTargetLabels"])


def test_every_rule_that_alerts_says_what_to_do() -> None:
    for rule in RULES:
        if "alert" in rule:
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["next_step"]


def test_panels_have_ids_of_their_own_and_a_place() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)


def test_the_document_of_metrics_is_the_table_of_the_code() -> None:
    documented = [
        line for line in (ROOT / "docs" / "metrics.md").read_text().splitlines() if line.startswith("| `rayflight.")
    ]
    rows = [(f"`{it.name}`", f"{it.kind}, {it.unit}", tags(it), f"`{it.prometheus}`", it.meaning) for it in METRICS]
    assert documented == [f"| {' | '.join(row)} |" for row in rows]


def tags(metric: Metric) -> str:
    return ", ".join(f"`{tag}`" for tag in metric.tags)
