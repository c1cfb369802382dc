"""The real Multus on one node of a test cluster: the thin plugin, before the node's own CNI configuration.

The program lies where Kubernetes' test programs do, or where $KVEDGE_TEST_MULTUS says; it is no part of a distribution.
What it delegates to are the distribution's CNI plugins. It speaks to the API server as an administrator.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from tests.support.cluster.kvedge_cluster import LocalCluster
from tests.support.cluster.machine_node import MachineNode
from tests.support.kube_apiserver import assets

_PLUGINS: Final = Path("/usr/lib/cni")
_CONFIG: Final = "/etc/cni/net.d"
_OURS: Final = "00-multus.conf"


def missing_multus() -> list[str]:
    """The program, when it is not on this machine."""
    program = _program()
    return [] if program.is_file() else [f"{program} (Multus' thin plugin; KVEDGE_TEST_MULTUS names another place)"]


def _program() -> Path:
    return Path(os.environ.get("KVEDGE_TEST_MULTUS") or (assets() or Path("/usr/local/kubebuilder/bin")) / "multus")


class Multus:
    """Multus on one node, from `start` to `stop`."""

    def __init__(self, cluster: LocalCluster, node: MachineNode) -> None:
        self._node = node
        self._kubeconfig = cluster.plane.api.write_kubeconfig("multus", ["system:masters"])
        self._directory = node.directory / "multus"

    def start(self) -> None:
        """Put it between the container runtime and the node's CNI plugins."""
        plugins = self._directory / "plugins"
        shutil.copytree(_PLUGINS, plugins)
        shutil.copy(_program(), plugins / "multus")
        # In the node's own mounts alone.
        self._node.run("mount", "--bind", str(plugins), str(_PLUGINS))
        own = self._node.directory / _CONFIG.lstrip("/")
        delegate = json.loads(next(own.glob("*.conflist")).read_text())
        config = {
            "cniVersion": delegate["cniVersion"],
            "name": "multus",
            "type": "multus",
            "kubeconfig": str(self._kubeconfig),
            "delegates": [delegate],
            "cniDir": str(self._directory / "state"),
            "logFile": str(self._node.directory / "multus.log"),
            "logLevel": "debug",
        }
        # The runtime takes the first configuration by name. It would notice a new one, but not say when.
        (own / _OURS).write_text(json.dumps(config))
        self._node.end("containerd")
        self._node.start_containerd()

    def stop(self) -> None:
        """Give the node back its own configuration; Pods that joined networks by Multus have to be gone."""
        (self._node.directory / _CONFIG.lstrip("/") / _OURS).unlink()
        self._node.run("umount", str(_PLUGINS))
        shutil.rmtree(self._directory)


def attachment(name: str, **plugin: object) -> JsonObject:
    """A NetworkAttachmentDefinition of one CNI plugin's configuration."""
    kind = NetworkAttachmentDefinition.KIND
    config = {"cniVersion": "0.4.0", "name": name, **plugin}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        "spec": {"config": json.dumps(config)},
    }
