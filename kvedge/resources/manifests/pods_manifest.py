"""kvedge as Pods of a cluster, for those who install nothing on their nodes: a DaemonSet and two Deployments.

Called by `packaging/cluster`, which writes k3s/daemonset.yaml and k3s/deployment.yaml. Pure. The image is the one that
`packaging/image` makes: the one file, on the host's /usr. Roles speak as their service accounts (k3s/rbac).
"""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.cluster_manifest import CRITICAL_CLASS
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_IMAGE, LAUNCHER_UID, SYSTEM_NAMESPACE, VERSION

IMAGE_NAME: Final = "kvedge.local/kvedge"
# Where the image has the one file; everything else in it is a place to mount things at.
PROGRAM: Final = "/opt/kvedge/kvedge"
API_SERVICE: Final = "kvedge-api"
_DATA: Final = "/var/lib/kvedge"
_KUBELET: Final = "/var/lib/kubelet"
_API_PORT: Final = 8443
_RELAY_PORT: Final = 8186
_REPLICAS: Final = 2
_NOBODY: Final = 65534
_NAME: Final = "app.kubernetes.io/name"
_MANAGED: Final = {"app.kubernetes.io/managed-by": "kvedge"}
# The host's own libraries and QEMU: nothing of them is in the image.
_USR_VOLUME: Final[JsonObject] = {"name": "usr", "hostPath": {"path": "/usr", "type": "Directory"}}
_USR_MOUNT: Final[JsonObject] = {"name": "usr", "mountPath": "/usr", "readOnly": True}
_EVERYWHERE: Final[list[JsonObject]] = [{"operator": "Exists"}]
_ON_SERVERS: Final[list[JsonObject]] = [
    {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node-role.kubernetes.io/master", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
]


def image_name(version: str) -> str:
    """The reference of the image of a version; a tag may hold no plus sign, which versions of builds have."""
    return f"{IMAGE_NAME}:{version.replace('+', '_')}"


def daemonset(version: str) -> JsonObject:
    """The handler of each node: root there, as it prepares networks and disks of other Pods."""
    name = "kvedge-handler"
    container = {
        **_container("handler", version),
        "env": [
            _from_field("KVEDGE_NODE_NAME", "spec.nodeName"),
            _from_field("HOST_IP", "status.hostIP"),
            {"name": "KVEDGE_RELAY_ADDRESS", "value": f"$(HOST_IP):{_RELAY_PORT}"},
        ],
        "ports": [{"name": "relay", "containerPort": _RELAY_PORT, "hostPort": _RELAY_PORT, "protocol": "TCP"}],
        "securityContext": {"privileged": True, "runAsUser": 0, "runAsGroup": 0},
        "volumeMounts": [
            _USR_MOUNT,
            {"name": "data", "mountPath": _DATA},
            # The kubelet must see the mounts below it, and the Pod those of the kubelet.
            {"name": "kubelet", "mountPath": _KUBELET, "mountPropagation": "Bidirectional"},
            {"name": "dev", "mountPath": "/dev"},
        ],
    }
    spec = {
        **_pod(name, container),
        "initContainers": [_image_keeper()],
        # Launchers are known by their processes, and reached by them.
        "hostPID": True,
        "hostNetwork": True,
        "dnsPolicy": "Default",
        "tolerations": _EVERYWHERE,
        "volumes": [
            _USR_VOLUME,
            {"name": "data", "hostPath": {"path": _DATA, "type": "DirectoryOrCreate"}},
            {"name": "kubelet", "hostPath": {"path": _KUBELET, "type": "Directory"}},
            {"name": "dev", "hostPath": {"path": "/dev", "type": "Directory"}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _metadata(name),
        "spec": {
            "selector": {"matchLabels": {_NAME: name}},
            # Guests run on while a handler is exchanged; a version that does not start stops at the first nodes.
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {"metadata": {"labels": {_NAME: name, **_MANAGED}}, "spec": spec},
        },
    }


def control_plane(version: str) -> list[JsonObject]:
    """Controller and api, each as a Deployment that may lose one of its Pods; and how the api is reached."""
    api = _container("api", version)
    api["env"].append({"name": "KVEDGE_API_ADDRESS", "value": f"0.0.0.0:{_API_PORT}"})
    api["ports"] = [{"name": "https", "containerPort": _API_PORT, "protocol": "TCP"}]
    api["readinessProbe"] = {"httpGet": {"path": "/healthz", "port": "https", "scheme": "HTTPS"}, "periodSeconds": 5}
    controller = _container("controller", version)
    return [
        _service(),
        *_deployment("kvedge-api", api, version),
        *_deployment("kvedge-controller", controller, version),
    ]


def _service() -> JsonObject:
    # With a selector; the api role leaves the endpoints of such a Service alone.
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": _API_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(API_SERVICE),
        "spec": {"type": "ClusterIP", "selector": {_NAME: API_SERVICE}, "ports": [port]},
    }


def _deployment(name: str, container: JsonObject, version: str) -> list[JsonObject]:
    labels = {"matchLabels": {_NAME: name}}
    container = {
        **container,
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [_USR_MOUNT, {"name": "data", "mountPath": _DATA}],
    }
    spec = {
        **_pod(name, container),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "fsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "tolerations": _ON_SERVERS,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": labels,
            }
        ],
        # The one file unpacks itself here.
        "volumes": [_USR_VOLUME, {"name": "data", "emptyDir": {"sizeLimit": "512Mi"}}],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name),
        "spec": {
            "replicas": _REPLICAS,
            "selector": labels,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            # By the version api roles see whether a newer one serves, whose webhooks then count.
            "template": {
                "metadata": {"labels": {_NAME: name, **_MANAGED}, "annotations": {VERSION: version}},
                "spec": spec,
            },
        },
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _metadata(name),
        "spec": {"minAvailable": 1, "selector": labels},
    }
    return [deployment, budget]


def _image_keeper() -> JsonObject:
    """A container of the launcher's image that ends at once.

    A kubelet that needs room removes images without a container; as long as the handler's Pod is there it keeps this
    one. And a node to which nobody has brought the image says so before the first VM comes.
    """
    return {
        "name": "launcher-image",
        "image": LAUNCHER_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["/usr/bin/true"],
        "resources": {"requests": {"cpu": "1m", "memory": "4Mi"}},
        "securityContext": {
            "privileged": False,
            "runAsNonRoot": True,
            "runAsUser": LAUNCHER_UID,
            "runAsGroup": LAUNCHER_GID,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [_USR_MOUNT],
    }


def _container(role: str, version: str) -> JsonObject:
    return {
        "name": role,
        "image": image_name(version),
        # It is put on each node by hand, or by k3s from agent/images; no registry has it.
        "imagePullPolicy": "Never",
        "command": [PROGRAM, role],
        "env": [],
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
    }


def _pod(name: str, container: JsonObject) -> JsonObject:
    return {
        "serviceAccountName": name,
        "priorityClassName": CRITICAL_CLASS,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "containers": [container],
    }


def _metadata(name: str) -> JsonObject:
    return {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": {_NAME: name, **_MANAGED}}


def _from_field(name: str, path: str) -> JsonObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
