"""Bodies in protobuf, as typed Go clients send them, against both servers."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.rpc import kubernetes_pb2 as k
from kvedge.rpc import pods_pb2
from kvedge.standalone.apiserver.wire.media_types import PROTOBUF
from kvedge.standalone.apiserver.wire.protobuf_body import MAGIC
from tests.support.api_client import ApiClient
from tests.support.protobuf_documents import filled
from tests.support.widgets import config_map, config_maps, pods

pytestmark = pytest.mark.contract


def body(raw: bytes, kind: str, version: str = "v1") -> bytes:
    return MAGIC + k.Unknown(typeMeta=k.TypeMeta(apiVersion=version, kind=kind), raw=raw).SerializeToString()


def test_an_object_is_created_and_replaced(admin: ApiClient, namespace: str) -> None:
    first = k.ConfigMap(metadata=k.ObjectMeta(name="a"), data={"x": "1"}, binaryData={"b": b"\x00"}, immutable=False)
    made = admin.ask("POST", config_maps(namespace), body(first.SerializeToString(), "ConfigMap"), PROTOBUF)
    assert made.status == 201, made.message
    assert (made.json["data"], made.json["binaryData"], made.json["immutable"]) == ({"x": "1"}, {"b": "AA=="}, False)
    second = k.ConfigMap(metadata=k.ObjectMeta(name="a", resourceVersion="1"), data={"x": "2"})
    stale = admin.ask("PUT", config_maps(namespace, "a"), body(second.SerializeToString(), "ConfigMap"), PROTOBUF)
    assert stale.status == 409
    second.metadata.resourceVersion = made.json["metadata"]["resourceVersion"]
    written = admin.ask("PUT", config_maps(namespace, "a"), body(second.SerializeToString(), "ConfigMap"), PROTOBUF)
    assert written.status == 200, written.message
    assert written.json["data"] == {"x": "2"}


def test_the_conditions_of_a_delete_are_understood(admin: ApiClient, namespace: str) -> None:
    admin.made(config_maps(namespace), config_map("a"))
    options = k.DeleteOptions(preconditions=k.Preconditions(uid="another"))
    refused = admin.ask(
        "DELETE", config_maps(namespace, "a"), body(options.SerializeToString(), "DeleteOptions"), PROTOBUF
    )
    assert refused.status == 409
    options = k.DeleteOptions(gracePeriodSeconds=0, propagationPolicy="Background")
    done = admin.ask(
        "DELETE", config_maps(namespace, "a"), body(options.SerializeToString(), "DeleteOptions"), PROTOBUF
    )
    assert done.status == 200, done.message
    assert admin.get(config_maps(namespace, "a")).status == 404


def test_an_invalid_object_is_refused_with_its_cause(admin: ApiClient, namespace: str) -> None:
    wrong = k.ConfigMap(metadata=k.ObjectMeta(name="a"), data={"no good": "x"})
    answer = admin.ask("POST", config_maps(namespace), body(wrong.SerializeToString(), "ConfigMap"), PROTOBUF)
    assert answer.status == 422
    assert "data[no good]" in answer.message


@pytest.mark.parametrize("sent", [b"", b"{}", MAGIC, MAGIC + b"\xff", body(b"\x0a\x05\x0a", "ConfigMap")])
def test_what_is_no_protobuf_is_a_bad_request(admin: ApiClient, namespace: str, sent: bytes) -> None:
    answer = admin.ask("POST", config_maps(namespace), sent, PROTOBUF)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest"), answer.message


def test_another_kind_than_the_url_has_is_a_bad_request(admin: ApiClient, namespace: str) -> None:
    secret = k.Secret(metadata=k.ObjectMeta(name="a"))
    answer = admin.ask("POST", config_maps(namespace), body(secret.SerializeToString(), "Secret"), PROTOBUF)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest"), answer.message


_KEY = {"name": "c", "key": "k"}
# At least one field of each message that a Pod's spec is made of.
_POD_SPEC: dict[str, Any] = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 0,
    "activeDeadlineSeconds": 100,
    "dnsPolicy": "None",
    "nodeSelector": {"a": "b"},
    "automountServiceAccountToken": False,
    "enableServiceLinks": False,
    "hostname": "h",
    "subdomain": "s",
    "schedulerName": "mine",
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}],
    "dnsConfig": {"nameservers": ["10.0.0.1"], "searches": ["x"], "options": [{"name": "ndots", "value": "2"}]},
    "readinessGates": [{"conditionType": "example.com/gate"}],
    "imagePullSecrets": [{"name": "pull"}],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}},
        }
    ],
    "securityContext": {
        "runAsUser": 107,
        "runAsNonRoot": True,
        "fsGroup": 107,
        "supplementalGroups": [1, 2],
        "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
        "seccompProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"level": "s0"},
    },
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 3,
                    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                }
            ],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "host", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}
            ]
        },
    },
    "volumes": [
        {"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "h", "hostPath": {"path": "/usr", "type": "Directory"}},
        {"name": "s", "secret": {"secretName": "x", "optional": True, "defaultMode": 256}},
        {"name": "c", "configMap": {"name": "c", "items": [{"key": "k", "path": "p", "mode": 384}]}},
        {"name": "p", "persistentVolumeClaim": {"claimName": "x", "readOnly": True}},
        {"name": "d", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "j", "projected": {"sources": [{"secret": {"name": "x"}}, {"configMap": {"name": "c"}}]}},
    ],
    "initContainers": [{"name": "i", "image": "x", "command": ["true"], "restartPolicy": "Always"}],
    "containers": [
        {
            "name": "main",
            "image": "example.com/x:1",
            "imagePullPolicy": "Never",
            "command": ["a"],
            "args": ["b", ""],
            "workingDir": "/w",
            "tty": True,
            "stdin": True,
            "ports": [{"name": "http", "containerPort": 80, "protocol": "UDP", "hostPort": 8080}],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"secretKeyRef": {**_KEY, "optional": False}}},
                {"name": "C", "valueFrom": {"configMapKeyRef": _KEY}},
                {"name": "D", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
                {"name": "E", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
            ],
            "envFrom": [
                {"prefix": "P_", "configMapRef": {"name": "c"}},
                {"secretRef": {"name": "s", "optional": True}},
            ],
            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "100m"}},
            "volumeMounts": [
                {"name": "e", "mountPath": "/e", "subPath": "x", "readOnly": True, "mountPropagation": "None"}
            ],
            "livenessProbe": {"httpGet": {"path": "/x", "port": "http", "scheme": "HTTP"}, "periodSeconds": 5},
            "readinessProbe": {"exec": {"command": ["true"]}, "initialDelaySeconds": 1},
            "startupProbe": {"tcpSocket": {"port": 80}, "failureThreshold": 9},
            "lifecycle": {"preStop": {"exec": {"command": ["x"]}}},
            "securityContext": {
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
            },
        }
    ],
}


def test_a_pod_in_protobuf_is_the_pod_that_json_makes(admin: ApiClient, namespace: str) -> None:
    document = {"metadata": {"name": "json", "labels": {"a": "b"}}, "spec": _POD_SPEC}
    plain = admin.made(pods(namespace), document)
    document["metadata"]["name"] = "protobuf"
    message = filled(pods_pb2.Pod(), document)
    made = admin.ask("POST", pods(namespace), body(message.SerializeToString(), "Pod"), PROTOBUF)
    assert made.status == 201, made.message
    assert made.json["spec"] == plain["spec"]
    assert made.json["metadata"]["labels"] == {"a": "b"}


def test_a_persistent_volume_in_protobuf_is_understood(admin: ApiClient, namespace: str) -> None:
    document = {
        "metadata": {"name": f"pv-{namespace}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "local",
            "volumeMode": "Block",
            "local": {"path": "/dev/x"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                }
            },
        },
    }
    message = filled(pods_pb2.PersistentVolume(), document)
    path = "/api/v1/persistentvolumes"
    made = admin.ask("POST", path, body(message.SerializeToString(), "PersistentVolume"), PROTOBUF)
    assert made.status == 201, made.message
    assert {key: made.json["spec"][key] for key in document["spec"]} == document["spec"]
    admin.delete(f"{path}/pv-{namespace}")


def test_a_webhook_configuration_in_protobuf_is_understood(admin: ApiClient, namespace: str) -> None:
    group = "admissionregistration.k8s.io/v1"
    webhook = {
        "name": "h.example.com",
        "clientConfig": {
            "service": {"namespace": "default", "name": "s", "path": "/x", "port": 444},
            "caBundle": "eA==",
        },
        "rules": [
            {"operations": ["CREATE"], "apiGroups": ["nobody"], "apiVersions": ["v1"], "resources": ["x"], "scope": "*"}
        ],
        "namespaceSelector": {"matchLabels": {"a": "b"}},
        "objectSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]},
        "matchConditions": [{"name": "a", "expression": "true"}],
        "failurePolicy": "Ignore",
        "matchPolicy": "Exact",
        "sideEffects": "None",
        "timeoutSeconds": 3,
        "admissionReviewVersions": ["v1"],
        "reinvocationPolicy": "IfNeeded",
    }
    for kind, left_out in (("Mutating", ""), ("Validating", "reinvocationPolicy")):
        entry = {key: value for key, value in webhook.items() if key != left_out}
        name = f"{kind}WebhookConfiguration"
        document = {"metadata": {"name": f"pb-{namespace}"}, "webhooks": [entry]}
        message = filled(getattr(pods_pb2, name)(), document)
        path = f"/apis/{group}/{name.lower()}s"
        plain = admin.post(path, {**document, "metadata": {"name": "plain"}}, dryRun="All")
        assert plain.status == 201, plain.message
        made = admin.ask("POST", path, body(message.SerializeToString(), name, group), PROTOBUF)
        assert made.status == 201, made.message
        assert made.json["webhooks"] == plain.json["webhooks"]
        admin.delete(f"{path}/pb-{namespace}")
