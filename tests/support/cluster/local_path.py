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
_PROVISIONER = "rancher.io/local-path"
_OF_SHARED = "kvedge.test/shared-path"
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
        It has a provisioner of its own: one that is told of classes by name refuses those that a test makes.
        """
        self._cluster = cluster
        self._directory = cluster.directory / "local-path"
        self._directory.mkdir(exist_ok=True)
        self._processes: list[subprocess.Popen[bytes]] = []
        of_node = {"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [DIRECTORY]}]}
        self._settings: dict[str, JsonObject] = {_PROVISIONER: of_node}
        if shared:
            place = self._directory / "shared"
            place.mkdir(exist_ok=True)
            self._settings[_OF_SHARED] = {"nodePathMap": [], "sharedFileSystemPath": str(place)}
        helper = json.dumps(_helper_pod())
        data = {"setup": _SETUP, "teardown": _TEARDOWN, "helperPod.yaml": helper}
        for provisioner, settings in self._settings.items():
            place = self._place_of(provisioner)
            place.mkdir(exist_ok=True)
            for name, text in {**data, "config.json": json.dumps(settings)}.items():
                (place / name).write_text(text)
        for document in (
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}},
            _in_namespace("ServiceAccount", "local-path-provisioner-service-account"),
            {**_in_namespace("ConfigMap", "local-path-config"), "data": {**data, "config.json": json.dumps(of_node)}},
            _storage_class(),
            *([_shared_class()] if shared else []),
        ):
            cluster.apply(document)

    def start(self) -> None:
        """Let it provide volumes."""
        self._processes = [self._run(provisioner) for provisioner in self._settings]

    def _place_of(self, provisioner: str) -> Path:
        return self._directory / provisioner.partition("/")[2]

    def _run(self, provisioner: str) -> subprocess.Popen[bytes]:
        place = self._place_of(provisioner)
        command = [
            *(str(_program()), "--debug", "start", "--namespace", _NAMESPACE, "--helper-image", PAUSE),
            *("--kubeconfig", str(self._cluster.kubeconfig), "--config", str(place / "config.json")),
            *("--service-account-name", "local-path-provisioner-service-account"),
            *("--provisioner-name", provisioner, "--health-port", str(free_port())),
        ]
        environment = {**os.environ, "POD_NAMESPACE": _NAMESPACE, "CONFIG_MOUNT_PATH": f"{place}/"}
        with (self._directory / "log").open("ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, start_new_session=True, stdin=subprocess.DEVNULL
            )

    def log(self) -> str:
        """What it has said."""
        return (self._directory / "log").read_text(errors="replace")

    def stop(self) -> None:
        """End it; volumes stay."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait(20)


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
        "provisioner": _PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }


def _shared_class() -> JsonObject:
    """A volume of it is bound at once, as it is of no node."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": SHARED_CLASS},
        "provisioner": _OF_SHARED,
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
