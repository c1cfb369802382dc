"""A directory of a ConfigMap in a guest by virtiofs, where a kubelet and containerd start its container."""

from __future__ import annotations

import os
import urllib.request
from typing import Any

import pytest

from tests.support.box import small_vm
from tests.support.cluster.any_cluster import Cluster
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(500),
    pytest.mark.skipif(
        not any(os.access(path, os.X_OK) for path in ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")),
        reason="needs a virtiofsd",
    ),
]
NAME = "shared"
USER_DATA = (
    "#!/bin/sh\nmkdir -p /www /settings\nmount -t virtiofs settings /settings\ncp /settings/colour /www/colour\n"
)


def test_a_guest_reads_the_files_of_a_config_map(cluster: Cluster) -> None:
    cluster.kubectl("create", "configmap", "settings", "--from-literal=colour=blue")
    vm = small_vm(NAME, cluster.image)
    spec: Any = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["domain"]["devices"]["filesystems"] = [{"name": "settings", "virtiofs": {}}]
    spec["volumes"] += [
        {"name": "seed", "cloudInitNoCloud": {"userData": USER_DATA}},
        {"name": "settings", "configMap": {"name": "settings"}},
    ]
    cluster.apply(vm)
    vmi = cluster.wait_phase(NAME, "Running")
    (pod,) = cluster.pods(vmi)
    assert [each.name for each in pod.spec.containers] == ["compute", "virtiofs-settings"]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def told() -> str:
        try:
            with opener.open(f"http://{pod.status.pod_ip}/colour", timeout=5) as answer:
                return str(answer.read(64).decode())
        except OSError:
            return ""

    assert wait_until(told, "the guest tells what it has read", 120) == "blue"
    cluster.remove_vm(NAME)
    cluster.kubectl("delete", "configmap", "settings")
