"""One sound document of each kind that is worth damaging, with the path of its collection."""

from __future__ import annotations

from typing import Any

CORPUS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "/apis/example.com/v1/namespaces/default/widgets",
        {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w"},
            "spec": {"size": 2, "parts": [{"name": "a", "weight": 1}], "free": {"x": {"y": [1]}}},
        },
    ),
    (
        "/api/v1/namespaces/default/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "example.com/image:1",
                        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                        "resources": {"limits": {"cpu": "1", "memory": "1Mi"}, "requests": {"cpu": "100m"}},
                        "ports": [{"containerPort": 80, "name": "h"}],
                        "env": [{"name": "A", "value": "b"}],
                        "readinessProbe": {"exec": {"command": ["x"]}, "periodSeconds": 1},
                        "securityContext": {"capabilities": {"drop": ["ALL"]}},
                    }
                ],
                "terminationGracePeriodSeconds": 5,
                "volumes": [
                    {"name": "v", "emptyDir": {}},
                    {"name": "s", "secret": {"secretName": "x"}},
                    {"name": "h", "hostPath": {"path": "/usr"}},
                ],
                "initContainers": [{"name": "i", "image": "x"}],
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
                            ]
                        }
                    }
                },
            },
        },
    ),
    (
        "/api/v1/namespaces/default/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"a": "b"}}, "data": {"k": "v"}},
    ),
    (
        "/api/v1/namespaces/default/secrets",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s"},
            "data": {"a": "eA=="},
            "stringData": {"b": "c"},
            "type": "Opaque",
        },
    ),
    (
        "/api/v1/namespaces/default/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s"},
            "spec": {
                "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}],
                "selector": {"a": "b"},
                "clusterIP": "None",
            },
        },
    ),
    (
        "/api/v1/namespaces/default/events",
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
            "reason": "R",
            "message": "m",
            "type": "Normal",
            "firstTimestamp": "2020-01-01T00:00:00Z",
            "count": 1,
        },
    ),
    (
        "/api/v1/nodes",
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n"},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        },
    ),
    (
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
            "spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"},
        },
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "w"},
            "webhooks": [
                {
                    "name": "h.example.com",
                    "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": "eA=="},
                    "rules": [
                        {"operations": ["CREATE"], "apiGroups": ["nope"], "apiVersions": ["v1"], "resources": ["x"]}
                    ],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "failurePolicy": "Ignore",
                    "matchConditions": [{"name": "a", "expression": "true"}],
                }
            ],
        },
    ),
    (
        "/apis/apiregistration.k8s.io/v1/apiservices",
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1.other.io"},
            "spec": {
                "group": "other.io",
                "version": "v1",
                "groupPriorityMinimum": 100,
                "versionPriority": 1,
                "service": {"name": "s", "namespace": "default"},
                "insecureSkipTLSVerify": True,
            },
        },
    ),
    (
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "u",
                "groups": ["g"],
                "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "x"},
            },
            "metadata": {},
        },
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "r"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        },
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "r"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
        },
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.example.com"},
            "spec": {
                "group": "example.com",
                "names": {
                    "plural": "gadgets",
                    "singular": "gadget",
                    "kind": "Gadget",
                    "shortNames": ["gg"],
                    "categories": ["all"],
                },
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "subresources": {
                            "status": {},
                            "scale": {
                                "specReplicasPath": ".spec.replicas",
                                "statusReplicasPath": ".status.replicas",
                                "labelSelectorPath": ".status.selector",
                            },
                        },
                        "additionalPrinterColumns": [
                            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
                        ],
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "required": ["spec"],
                                "properties": {
                                    "spec": {
                                        "type": "object",
                                        "required": ["size"],
                                        "properties": {
                                            "size": {"type": "integer", "minimum": 1, "maximum": 10},
                                            "replicas": {"type": "integer"},
                                            "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                                            "parts": {
                                                "type": "array",
                                                "x-kubernetes-list-type": "map",
                                                "x-kubernetes-list-map-keys": ["name"],
                                                "items": {
                                                    "type": "object",
                                                    "required": ["name"],
                                                    "properties": {
                                                        "name": {"type": "string"},
                                                        "weight": {"type": "integer"},
                                                    },
                                                },
                                            },
                                            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                        },
                                    },
                                    "status": {
                                        "type": "object",
                                        "properties": {
                                            "phase": {"type": "string"},
                                            "replicas": {"type": "integer"},
                                            "selector": {"type": "string"},
                                        },
                                    },
                                },
                            }
                        },
                    },
                    {
                        "name": "v1alpha1",
                        "served": True,
                        "storage": False,
                        "subresources": {
                            "status": {},
                            "scale": {
                                "specReplicasPath": ".spec.replicas",
                                "statusReplicasPath": ".status.replicas",
                                "labelSelectorPath": ".status.selector",
                            },
                        },
                        "additionalPrinterColumns": [
                            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
                        ],
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "required": ["spec"],
                                "properties": {
                                    "spec": {
                                        "type": "object",
                                        "required": ["size"],
                                        "properties": {
                                            "size": {"type": "integer", "minimum": 1, "maximum": 10},
                                            "replicas": {"type": "integer"},
                                            "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
                                            "parts": {
                                                "type": "array",
                                                "x-kubernetes-list-type": "map",
                                                "x-kubernetes-list-map-keys": ["name"],
                                                "items": {
                                                    "type": "object",
                                                    "required": ["name"],
                                                    "properties": {
                                                        "name": {"type": "string"},
                                                        "weight": {"type": "integer"},
                                                    },
                                                },
                                            },
                                            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                        },
                                    },
                                    "status": {
                                        "type": "object",
                                        "properties": {
                                            "phase": {"type": "string"},
                                            "replicas": {"type": "integer"},
                                            "selector": {"type": "string"},
                                        },
                                    },
                                },
                            }
                        },
                    },
                ],
            },
        },
    ),
    ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nn", "labels": {"a": "b"}}}),
    (
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "es"},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
            "ports": [{"name": "a", "port": 1, "protocol": "TCP"}],
        },
    ),
    (
        "/api/v1/namespaces/default/endpoints",
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": "ee"},
            "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 1}]}],
        },
    ),
)
