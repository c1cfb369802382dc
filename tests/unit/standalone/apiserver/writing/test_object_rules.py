"""The rules of built-in kinds: everything wrong at once, and what may not change."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.builtin_shape import decode
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex, ServedKind
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, FieldError
from kvedge.standalone.apiserver.writing.object_rules import check_content, check_content_update, name_rule_of

INDEX = KindIndex(BUILT_IN)
Object = dict[str, Any]
WRONG_PORTS = ((2, "port"), (3, "port"), (4, "protocol"))


def kind_of(name: str, api_version: str = "v1") -> ServedKind:
    found = INDEX.of(api_version, name)
    assert found is not None
    return found


def texts(errors: list[FieldError]) -> list[str]:
    return [error.text() for error in errors]


def pod_errors(**spec: Any) -> list[str]:
    return texts(check_content(kind_of("Pod"), {"spec": {"containers": [{"name": "a", "image": "i"}], **spec}}))


def container_errors(**fields: Any) -> list[str]:
    container = {"name": "a", "image": "i", **fields}
    prefix = "spec.containers[0]"
    return [
        text.removeprefix(prefix)
        for text in pod_errors(containers=[container], volumes=[{"name": "v", "emptyDir": {}}])
    ]


def test_a_sound_pod_has_no_errors() -> None:
    spec = {
        "containers": [
            {
                "name": "compute",
                "image": "kvedge.local/launcher:1",
                "imagePullPolicy": "IfNotPresent",
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"containerPort": 80, "name": "web"}],
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"devices.kubevirt.io/kvm": "1"}},
                "volumeMounts": [{"name": "usr", "mountPath": "/usr", "readOnly": True}],
                "securityContext": {"runAsUser": 107},
            }
        ],
        "volumes": [
            {"name": "usr", "hostPath": {"path": "/usr", "type": "Directory"}},
            {"name": "disk", "image": {"reference": "x"}},
        ],
        "securityContext": {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]},
        "tolerations": [{"operator": "Exists"}],
        "restartPolicy": "Never",
    }
    assert pod_errors(**spec) == []


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"name": ""}, [".name: Required value"]),
        ({"image": ""}, [".image: Required value"]),
        ({"image": " a"}, ['.image: Invalid value: " a": must not have leading or trailing whitespace']),
        (
            {"imagePullPolicy": "Ask"},
            ['.imagePullPolicy: Unsupported value: "Ask": supported values: "Always", "IfNotPresent", "Never"'],
        ),
        ({"env": [{"value": "x"}]}, [".env[0].name: Required value"]),
        (
            {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {}}}]},
            ['.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
        ),
        ({"ports": [{"name": "a"}]}, [".ports[0].containerPort: Required value"]),
        (
            {"ports": [{"containerPort": 70000}]},
            [".ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
        ),
        (
            {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a", "protocol": "ICMP"}]},
            [
                '.ports[1].name: Duplicate value: "a"',
                '.ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
            ],
        ),
        ({"volumeMounts": [{"name": "w", "mountPath": "/w"}]}, ['.volumeMounts[0].name: Not found: "w"']),
        ({"volumeMounts": [{"name": "v"}]}, [".volumeMounts[0].mountPath: Required value"]),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}]},
            ['.volumeMounts[1].mountPath: Invalid value: "/v": must be unique'],
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "../x"}]},
            [".volumeMounts[0].subPath: Invalid value: \"../x\": must not contain '..'"],
        ),
        ({"volumeDevices": [{"name": "w", "devicePath": "/dev/x"}]}, ['.volumeDevices[0].name: Not found: "w"']),
        (
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            ['.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            {"resources": {"limits": {"memory": "-1Gi"}}},
            ['.resources.limits[memory]: Invalid value: "-1Gi": must be greater than or equal to 0'],
        ),
        (
            {"securityContext": {"runAsUser": -1}},
            [".securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"],
        ),
    ],
)
def test_a_container_that_is_wrong_is_refused(fields: Object, found: list[str]) -> None:
    assert container_errors(**fields) == found


def test_a_quantity_that_is_none_is_refused() -> None:
    (text,) = container_errors(resources={"limits": {"memory": "much"}})
    assert text.startswith(
        '.resources.limits[memory]: Invalid value: "much": quantities must match the regular expression'
    )


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"containers": []}, ["spec.containers: Required value"]),
        ({"initContainers": [{"name": "a", "image": "i"}]}, ['spec.containers[0].name: Duplicate value: "a"']),
        (
            {"restartPolicy": "Maybe"},
            ['spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"'],
        ),
        (
            {"terminationGracePeriodSeconds": -1},
            ["spec.terminationGracePeriodSeconds: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            {"activeDeadlineSeconds": 0},
            ["spec.activeDeadlineSeconds: Invalid value: 0: must be greater than or equal to 1"],
        ),
        ({"volumes": [{"name": "v"}]}, ["spec.volumes[0]: Required value: must specify a volume type"]),
        ({"volumes": [{"emptyDir": {}}]}, ["spec.volumes[0].name: Required value"]),
        (
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
            ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]},
            ['spec.volumes[1].name: Duplicate value: "v"'],
        ),
        ({"volumes": [{"name": "v", "secret": {}}]}, ["spec.volumes[0].secret.secretName: Required value"]),
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]},
            ["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
        ),
        (
            {
                "volumes": [
                    {"name": "v", "configMap": {"name": "c", "defaultMode": 512, "items": [{"key": "k", "path": "/p"}]}}
                ]
            },
            [
                (
                    "spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 "
                    "and 0777 (octal), both inclusive"
                ),
                'spec.volumes[0].configMap.items[0].path: Invalid value: "/p": must be a relative path',
            ],
        ),
        (
            {"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "big"}}]},
            ['spec.volumes[0].emptyDir.sizeLimit: Invalid value: "big": must be a quantity'],
        ),
        (
            {"securityContext": {"sysctls": [{"name": "a"}, {"name": "a"}, {}]}},
            [
                'spec.securityContext.sysctls[1].name: Duplicate value: "a"',
                "spec.securityContext.sysctls[2].name: Required value",
            ],
        ),
        (
            {"tolerations": [{"operator": "Equal"}]},
            [
                (
                    'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` '
                    'is empty, which means "match all values and all keys"'
                )
            ],
        ),
    ],
)
def test_a_pod_that_is_wrong_is_refused(spec: Object, found: list[str]) -> None:
    assert pod_errors(**spec) == found


def test_all_mistakes_of_a_pod_are_named_at_once() -> None:
    found = pod_errors(
        containers=[{"name": "A"}, {"image": "i", "volumeMounts": [{}]}], volumes=[{}], restartPolicy="x"
    )
    assert [text.split(":")[0] for text in found] == [
        "spec.volumes[0].name",
        "spec.volumes[0]",
        "spec.containers[0].name",
        "spec.containers[0].image",
        "spec.containers[1].name",
        "spec.containers[1].volumeMounts[0].name",
        "spec.containers[1].volumeMounts[0].mountPath",
        "spec.restartPolicy",
    ]


POD: Object = {
    "spec": {
        "containers": [{"name": "a", "image": "i"}],
        "nodeName": "box",
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "schedulingGates": [{"name": "g"}],
    }
}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        pytest.param({"containers": [{"name": "a", "image": "other"}]}, "", id="another image"),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]},
            "",
            id="one more toleration",
        ),
        pytest.param({"schedulingGates": []}, "", id="a gate less"),
        pytest.param({"activeDeadlineSeconds": 5}, "", id="a deadline"),
        pytest.param({"tolerations": []}, "spec.tolerations", id="a toleration less"),
        pytest.param({"schedulingGates": [{"name": "g"}, {"name": "h"}]}, "spec.schedulingGates[1]", id="a gate more"),
        pytest.param({"nodeName": "other"}, "spec", id="another node"),
        pytest.param({"containers": [{"name": "a", "image": "i", "args": ["x"]}]}, "spec", id="other arguments"),
    ],
)
def test_only_some_of_a_pod_may_change(change: Object, field: str) -> None:
    errors = check_content_update(kind_of("Pod"), {"spec": {**POD["spec"], **change}}, POD)
    assert [error.field for error in errors] == ([field] if field else [])


def test_a_pod_can_be_bound_once() -> None:
    unbound = {"spec": {key: value for key, value in POD["spec"].items() if key != "nodeName"}}
    assert check_content_update(kind_of("Pod"), POD, unbound) == []


@pytest.mark.parametrize(
    ("kind", "obj", "found"),
    [
        ("Service", {"spec": {}}, ["spec.ports: Required value"]),
        ("Service", {"spec": {"clusterIP": "None"}}, []),
        ("Service", {"spec": {"type": "ExternalName"}}, ["spec.externalName: Required value"]),
        (
            "Service",
            {"spec": {"ports": [{"port": 80}, {"port": 80, "name": "b", "targetPort": 0, "protocol": "X"}]}},
            [
                "spec.ports[0].name: Required value",
                'spec.ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
                "spec.ports[1].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            "Service",
            {"spec": {"ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "a"}], "clusterIP": "x"}},
            [
                'spec.ports[1].name: Duplicate value: "a"',
                'spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
            ],
        ),
        ("Secret", {"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}, ["data[tls.key]: Required value"]),
        (
            "Secret",
            {"data": {"a": "A" * (1024 * 1024 * 4 // 3 + 8)}},
            ["data: Too long: may not be more than 1048576 bytes"],
        ),
        (
            "ConfigMap",
            {"data": {"a": "1"}, "binaryData": {"a": "MQ=="}},
            ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
        ),
        (
            "Node",
            {"spec": {"taints": [{"key": "a", "effect": "Never"}]}},
            [
                (
                    'spec.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", '
                    '"PreferNoSchedule", "NoExecute"'
                )
            ],
        ),
        (
            "Event",
            {"metadata": {"namespace": "a"}, "involvedObject": {"namespace": "b"}},
            ['involvedObject.namespace: Invalid value: "b": does not match event.namespace'],
        ),
        ("Event", {"metadata": {"namespace": "default"}, "involvedObject": {"kind": "Node"}}, []),
        (
            "Endpoints",
            {"subsets": [{"addresses": [{"ip": "x"}]}]},
            [
                (
                    'subsets[0].addresses[0].ip: Invalid value: "x": must be a valid IP address, (e.g. '
                    "10.9.8.7 or 2001:db8::ffff)"
                )
            ],
        ),
        (
            "PersistentVolumeClaim",
            {"spec": {}},
            [
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        ),
        ("Namespace", {}, []),
    ],
)
def test_a_core_object_that_is_wrong_is_refused(kind: str, obj: Object, found: list[str]) -> None:
    assert texts(check_content(kind_of(kind), obj)) == found


@pytest.mark.parametrize(
    ("count", "found"), [(100, []), (101, ["spec.ports: Too many: 101: must have at most 100 items"])]
)
def test_a_service_has_a_hundred_ports_at_most(count: int, found: list[str]) -> None:
    ports = [{"port": number, "name": f"p{number}"} for number in range(1, count + 1)]
    assert texts(check_content(kind_of("Service"), {"spec": {"ports": ports}})) == found


def test_two_ports_of_a_service_are_not_the_same() -> None:
    ports = [{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]
    errors = check_content(kind_of("Service"), {"spec": {"ports": ports}})
    assert [(error.field, error.bad_value) for error in errors] == [("spec.ports[1]", {"protocol": "TCP", "port": 80})]


@pytest.mark.parametrize(
    ("api_version", "kind", "obj", "fields"),
    [
        (
            "coordination.k8s.io/v1",
            "Lease",
            {"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}},
            ["spec.leaseDurationSeconds", "spec.leaseTransitions"],
        ),
        ("networking.k8s.io/v1", "IPAddress", {"metadata": {"name": "10.0.0.01"}}, ["metadata.name", "spec.parentRef"]),
        (
            "networking.k8s.io/v1",
            "IPAddress",
            {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": {}}},
            ["spec.parentRef.resource", "spec.parentRef.name"],
        ),
        ("discovery.k8s.io/v1", "EndpointSlice", {"endpoints": [{}]}, ["addressType", "endpoints[0].addresses"]),
        (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            {
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.9.8.7", "fd00::1", "name"]}],
                "ports": [{"port": 80}, {}, {"port": 70000}, {"port": 0}, {"port": 1, "protocol": "TLS"}],
            },
            [f"endpoints[0].addresses[{at}]" for at in (1, 2)] + [f"ports[{at}].{field}" for at, field in WRONG_PORTS],
        ),
        (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            {"addressType": "IPv6", "endpoints": [{"addresses": ["10.9.8.7", "fd00::1"]}]},
            ["endpoints[0].addresses[0]"],
        ),
        ("discovery.k8s.io/v1", "EndpointSlice", {"addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]}, []),
    ],
)
def test_an_object_of_another_group_that_is_wrong_is_refused(
    api_version: str, kind: str, obj: Object, fields: list[str]
) -> None:
    assert [error.field for error in check_content(kind_of(kind, api_version), obj)] == fields


@pytest.mark.parametrize(
    ("api_version", "kind", "old", "new", "fields"),
    [
        ("v1", "Secret", {"type": "a"}, {"type": "b"}, ["type"]),
        ("v1", "Secret", {"immutable": True, "data": {"a": "MQ=="}}, {"data": {"a": "Mg=="}}, ["immutable", "data"]),
        ("v1", "ConfigMap", {"immutable": True, "data": {"a": "1"}}, {"immutable": True, "data": {"a": "1"}}, []),
        ("v1", "ConfigMap", {"immutable": True}, {"immutable": True, "binaryData": {"a": "MQ=="}}, ["binaryData"]),
        (
            "v1",
            "Service",
            {"spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 1}]}},
            {"spec": {"clusterIP": "10.0.0.2", "ports": [{"port": 1}]}},
            ["spec.clusterIPs[0]"],
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}},
            {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "b"}},
            ["roleRef"],
        ),
        (
            "networking.k8s.io/v1",
            "IPAddress",
            {"spec": {"parentRef": {"resource": "vms", "name": "a"}}},
            {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": {"resource": "vms", "name": "b"}}},
            ["spec.parentRef"],
        ),
    ],
)
def test_what_may_not_change_is_refused(
    api_version: str, kind: str, old: Object, new: Object, fields: list[str]
) -> None:
    assert [error.field for error in check_content_update(kind_of(kind, api_version), new, old)] == fields


def test_each_kind_has_its_rule_for_names() -> None:
    assert name_rule_of(kind_of("Service")) is name_rules.dns1035_label
    assert name_rule_of(kind_of("Namespace")) is name_rules.dns_label
    assert name_rule_of(kind_of("Pod")) is name_rules.dns_subdomain
    assert name_rule_of(kind_of("Role", "rbac.authorization.k8s.io/v1")) is name_rules.path_segment


def test_an_object_is_brought_into_the_shape_of_its_type() -> None:
    obj = {
        "kind": "Pod",
        "spec": {"containers": [{"name": "a", "nothing": 1, "env": None}], "odd": {"x": 1}, "overhead": {"cpu": 0.5}},
        "extra": 1,
    }
    decoded, unknown = decode(kind_of("Pod"), obj)
    assert decoded == {"kind": "Pod", "spec": {"containers": [{"name": "a"}], "overhead": {"cpu": 0.5}}}
    assert unknown == ["extra", "spec.containers[0].nothing", "spec.odd"]
    free = {"spec": {"capacity": {"x": {"y": 1}}}}
    assert decode(kind_of("PersistentVolume"), free) == (free, [])


@pytest.mark.parametrize(
    ("kind", "obj", "why"),
    [
        (
            "Pod",
            {"spec": {"containers": "x"}},
            "json: cannot unmarshal string into Go struct field spec.containers of type slice",
        ),
        (
            "Pod",
            {"spec": {"containers": ["x"]}},
            "cannot unmarshal string into Go struct field spec.containers[0] of type struct",
        ),
        (
            "Pod",
            {"spec": {"priority": 2**31}},
            "cannot unmarshal number 2147483648 into Go struct field spec.priority of type int32",
        ),
        (
            "Pod",
            {"spec": {"hostNetwork": "yes"}},
            "cannot unmarshal string into Go struct field spec.hostNetwork of type bool",
        ),
        (
            "Pod",
            {"metadata": {"labels": {"a": 1}}},
            "cannot unmarshal integer into Go struct field metadata.labels.a of type string",
        ),
        ("Secret", {"data": {"a": "***"}}, "illegal base64 data in data.a"),
        ("Service", {"spec": {"ports": [{"targetPort": True}]}}, "of type intstr.IntOrString"),
    ],
)
def test_a_value_of_another_type_than_its_field_is_a_bad_request(kind: str, obj: Object, why: str) -> None:
    with pytest.raises(BadRequest) as refused:
        decode(kind_of(kind), obj)
    assert refused.value.message.startswith(f'{kind} in version "v1" cannot be handled as a {kind}: ')
    assert why in refused.value.message
