"""k3s's storage for a test cluster: the real local-path-provisioner, with the class and the settings that k3s gives it.

It runs beside the control plane, not in a Pod, as its image is not at hand; its helper Pods run on the nodes as ever.
The program lies where Kubernetes' test programs do; it is no part of a distribution.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from kvedge.resources.codec import JsonObject
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import PAUSE
from tests.support.kube_apiserver import assets
from tests.support.ports import free_port

CLASS = "local-path"
SHARED_CLASS = "shared-path"
# On a node: below what it keeps over a restart.
DIRECTORY = "/var/lib/kubelet/local-path"
_NAMESPACE = "local-path-storage"
_SETUP = '#!/bin/sh\nset -eu\n/bin/busybox mkdir -m 0777 -p "$VOL_DIR"\n'
_TEARDOWN = '#!/bin/sh\nset -eu\n/bin/busybox rm -rf "$VOL_DIR"\n'


def missing_provisioner() -> list[str]:
    """The program, when it is not on this machine."""
    program = _program()
    return [] if program.is_file() else [str(program)]


class LocalPathProvisioner:
    """The provisioner of one cluster."""

    def __init__(self, cluster: LocalCluster, *, shared: bool = False) -> None:
        """Make its class, its settings and its rights; `start` follows.

        With `shared` there is a second class, whose volumes are of a directory of this machine, which all nodes have.
        """
        self._cluster = cluster
        self._directory = cluster.directory / "local-path"
        self._directory.mkdir(exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        settings: JsonObject = {"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [DIRECTORY]}]}
        if shared:
            place = self._directory / "shared"
            place.mkdir(exist_ok=True)
            own, of_all = settings, {"sharedFileSystemPath": str(place)}
            settings = {"nodePathMap": [], "storageClassConfigs": {CLASS: own, SHARED_CLASS: of_all}}
        helper = json.dumps(_helper_pod())
        data = {"config.json": json.dumps(settings), "setup": _SETUP, "teardown": _TEARDOWN, "helperPod.yaml": helper}
        for name, text in data.items():
            (self._directory / name).write_text(text)
        for document in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
            _in_namespace("ServiceAccount", "local-path-provisioner-service-account"),
            {**_in_namespace("ConfigMap", "local-path-config"), "data": data},
            _storage_class(),
            *([_shared_class()] if shared else []),
        ):
            cluster.apply(document)

    def start(self) -> None:
        """Let it provide volumes."""
        command = [
            *(str(_program()), "--debug", "start", "--namespace", _NAMESPACE, "--helper-image", PAUSE),
            *("--kubeconfig", str(self._cluster.kubeconfig), "--config", str(self._directory / "config.json")),
            *("--service-account-name", "local-path-provisioner-service-account"),
            *("--health-port", str(free_port())),
        ]
        environment = {**os.environ, "POD_NAMESPACE": _NAMESPACE, "CONFIG_MOUNT_PATH": f"{self._directory}/"}
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True, stdin=subprocess.DEVNULL
            )

    def log(self) -> str:
        """What it has said."""
        return (self._directory / "log").read_text(errors="replace")

    def stop(self) -> None:
        """End it; volumes stay."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)


def _program() -> Path:
    return (assets() or Path("/usr/local/kubebuilder/bin")) / "local-path-provisioner"


def _in_namespace(kind: str, name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": _NAMESPACE}}


def _storage_class() -> JsonObject:
    """As k3s has it."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true", "defaultVolumeType": "local"},
        },
        "provisioner": "rancher.io/local-path",
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }


def _shared_class() -> JsonObject:
    """A volume of it is bound at once, as it is of no node."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": SHARED_CLASS},
        "provisioner": "rancher.io/local-path",
        "volumeBindingMode": "Immediate",
        "reclaimPolicy": "Delete",
    }


def _helper_pod() -> JsonObject:
    container = {"name": "helper-pod", "image": PAUSE, "imagePullPolicy": "Never"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
    }
