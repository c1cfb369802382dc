"""The labels on CPUs for guests alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.handler.node.cpu_manager import read_cpu_labels

KUBELETS = '{"policyName":"static","defaultCpuSet":"0,3","entries":{"uid":{"compute":"1-2"}},"checksum":1353318690}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (KUBELETS, "true"),
        ('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}', "false"),
        (None, "false"),
        ('{"policyName":', "false"),
        ("[]", "false"),
    ],
    ids=["static", "none", "no file", "half a file", "something else"],
)
def test_the_kubelets_policy_is_told(tmp_path: Path, text: str | None, value: str) -> None:
    if text is not None:
        (tmp_path / "cpu_manager_state").write_text(text)
    labels = read_cpu_labels(tmp_path, tmp_path / "none")
    assert labels == {"cpumanager": value, "kubevirt.io/cpumanager": value}


@pytest.mark.parametrize(("limit", "told"), [("-1\n", True), ("950000\n", False)])
def test_a_kernel_that_gives_real_time_whole_cpus_is_told(tmp_path: Path, limit: str, told: bool) -> None:
    (tmp_path / "limit").write_text(limit)
    assert ("kubevirt.io/realtime" in read_cpu_labels(tmp_path, tmp_path / "limit")) is told
