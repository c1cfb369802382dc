# Tests: kvedge/client/manifests/service_manifest.py, kvedge/client/manifests/vm_manifest.py
# Tests: kvedge/client/manifests/launch_disk.py
"""The manifests that `create vm`, `launch` and `expose` make, as golden files.

A contract test compares the first with virtctl's and has an API server judge the second.
`KVEDGE_WRITE_GOLDEN=1` writes the files anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kvedge.cli.exits import Exit
from kvedge.cli.group import kvedge, run
from kvedge.client.errors import RefusedError, UsageError
from kvedge.client.manifests.service_manifest import ServiceOptions, service_manifest
from kvedge.client.manifests.vm_manifest import LaunchOptions, canonical_size, launch_manifest
from kvedge.resources.names import VMI_ID
from kvedge.resources.values.label_values import as_label_value
from tests.support.golden.manifest_cases import CREATE_CASES, GOLDEN, LAUNCH_CASES


@pytest.mark.parametrize("case", [*CREATE_CASES, *LAUNCH_CASES])
def test_a_manifest_is_as_its_golden_file(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA joe@home\n")
    (tmp_path / "user-data").write_text("#cloud-config\nhostname: special\n")
    arguments = CREATE_CASES.get(case) or LAUNCH_CASES[case]
    found = CliRunner().invoke(kvedge, arguments, catch_exceptions=False)
    assert found.exit_code == 0, found.output
    path = GOLDEN / f"{case}.yaml"
    if os.environ.get("KVEDGE_WRITE_GOLDEN"):
        path.write_text(found.stdout)
    assert found.stdout == path.read_text()


def test_each_golden_file_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == {*CREATE_CASES, *LAUNCH_CASES}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--volume-import", "type:blank,size:1Gi"], "--volume-import: kvedge imports no volumes: put the disk"),
        (["--volume-datasource", "src:a"], "`kvedge image pull`"),
        (["--volume-blank", "size:1Gi"], "--volume-blank: kvedge makes no volumes"),
        (["--instancetype", "pod/small"], 'invalid instancetype kind "pod", supported values are: virtualmachine'),
        (["--infer-preference"], "at least one volume is needed to infer"),
        (["--infer-instancetype-from", "x", "--volume-pvc", "src:p"], 'there is no volume with name "x"'),
        (["--infer-instancetype", "--volume-containerdisk", "src:p"], "works only with datasources, datavolumes or"),
        (["--instancetype", "small", "--memory", "1Gi"], "--memory and --instancetype exclude each other"),
        (["--run-strategy", "Sometimes"], 'invalid run strategy "Sometimes"'),
        (["--memory", "lots"], 'failed to parse "--memory" flag'),
        (["--memory", "-1Gi"], "-1Gi is not more than 0"),
        (["--cloud-init", "foo"], 'invalid cloud-init data source type "foo"'),
        (["--volume-pvc", "src:ns/p"], 'not allowed to specify namespace of pvc "p"'),
        (["--password-file", "/none"], "--password-file: /none cannot be read: No such file"),
        (["--user", "a", "--cloud-init-user-data", "aGk="], "--cloud-init-user-data and --user exclude each other"),
        (["--volume-sysprep", "src:a,type:b"], 'invalid sysprep source type "b"'),
    ],
)
def test_what_kvedge_cannot_make_is_refused_by_its_flag(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["create", "vm", *arguments]) == Exit.USAGE
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a b", "web"], "is no image"),
        (["local/a:1", "we/b"], "may not have '/'"),
        (["local/a:1", "web", "--label", "x"], "write KEY=VALUE"),
        (["local/a:1", "web", "--disk-size", "x"], 'failed to parse "--disk-size" flag'),
        (["local/a:1", "web", "--disk", "0"], 'failed to parse "--disk" flag'),
        (["./none.qcow2", "web", "--disk", "1Gi"], "./none.qcow2: there is no such file"),
        (["./private", "web"], "./private is a file or a URL, and needs --disk SIZE"),
        (["https://example.com/a.img", "web"], "needs --disk SIZE"),
        (["local/a:1", "web", "--storage-class", "fast"], "--storage-class needs --disk SIZE"),
        (["local/a:1", "web", "--ssh-key", "./private"], "is a private key: name the public one, ./private.pub"),
        (["local/a:1", "web", "--user-data", "binary"], "--user-data: binary is not UTF-8 text"),
        (["local/a:1", "web", "--user", "a", "--user-data", "private"], "--user-data takes the place of --user"),
    ],
)
def test_what_cannot_be_launched_is_told_before_anything_is_sent(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "private").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert run(["launch", *arguments, "--dry-run"]) == Exit.USAGE
    assert words in capsys.readouterr().err


def test_a_vm_that_nobody_named_has_a_name() -> None:
    names = set()
    for _ in range(3):
        names.add(yaml.safe_load(CliRunner().invoke(kvedge, ["create", "vm"]).stdout)["metadata"]["name"])
    assert len(names) == 3
    assert all(name.startswith("vm-") and len(name) == 8 for name in names)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        *[("1Gi", "1Gi"), ("1024Mi", "1Gi"), ("1.5Gi", "1536Mi"), ("1500Mi", "1500Mi"), ("0.5", "500m")],
        *[("1000000000", "1G"), ("1e3", "1e3"), ("1.3Ki", "1331200m"), ("100", "100"), ("1024", "1024")],
    ],
)
def test_a_size_is_written_as_kubernetes_writes_it_back(text: str, canonical: str) -> None:
    assert canonical_size("memory", text) == canonical


VM = {
    "kind": "VirtualMachine",
    "metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
    "spec": {
        "template": {
            "spec": {
                "domain": {
                    "devices": {
                        "interfaces": [
                            {"name": "lan", "ports": [{"port": 1}]},
                            {
                                "name": "default",
                                "ports": [{"name": "http", "port": 80}, {"port": 53, "protocol": "UDP"}],
                            },
                        ]
                    }
                },
                "networks": [{"name": "lan", "multus": {}}, {"name": "default", "pod": {}}],
            }
        }
    },
}


def test_a_service_selects_the_launcher_pod_and_is_owned_by_what_it_exposes() -> None:
    options = ServiceOptions(
        name="svc",
        port=80,
        target_port="8080",
        type="NodePort",
        port_name="x",
        cluster_ip="None",
        external_ip="1.2.3.4",
        ip_family="IPv4,IPv6",
        ip_family_policy="PreferDualStack",
    )
    assert service_manifest(options, VM) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "svc",
            "namespace": "shop",
            "ownerReferences": [
                {
                    "apiVersion": "kubevirt.io/v1",
                    "kind": "VirtualMachine",
                    "name": "web",
                    "uid": "u-1",
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {
            "type": "NodePort",
            "selector": {"vmi.kubevirt.io/id": "web"},
            "ports": [{"port": 80, "protocol": "TCP", "name": "x", "targetPort": 8080}],
            "clusterIP": "None",
            "externalIPs": ["1.2.3.4"],
            "ipFamilies": ["IPv4", "IPv6"],
            "ipFamilyPolicy": "PreferDualStack",
        },
    }


def test_without_a_port_those_of_the_pods_network_are_taken() -> None:
    assert service_manifest(ServiceOptions(name="svc"), VM)["spec"]["ports"] == [
        {"name": "port-1", "port": 80, "protocol": "TCP"},
        {"name": "port-2", "port": 53, "protocol": "UDP"},
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (ServiceOptions(name="s", port=1, protocol="SCTP"), "unknown protocol: SCTP"),
        (ServiceOptions(name="s", port=1, type="ExternalName"), "unknown service type: ExternalName"),
        (ServiceOptions(name="s", port=1, ip_family="foo"), "unknown IPFamily/s: foo"),
        (ServiceOptions(name="s", port=1, ip_family_policy="x"), "unknown IPFamilyPolicy/s: x"),
    ],
)
def test_a_service_that_makes_no_sense_is_refused(options: ServiceOptions, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        service_manifest(options, VM)
    assert caught.value.text.startswith(words)


def test_a_vmi_without_ports_needs_one() -> None:
    vmi = {"kind": "VirtualMachineInstance", "metadata": VM["metadata"], "spec": {"domain": {"devices": {}}}}
    with pytest.raises(UsageError, match="couldn't find port via --port flag or introspection"):
        service_manifest(ServiceOptions(name="svc"), vmi)


def test_a_replica_set_is_exposed_by_its_labels() -> None:
    replicas = {
        "kind": "VirtualMachineInstanceReplicaSet",
        "metadata": VM["metadata"],
        "spec": {**VM["spec"], "selector": {"matchLabels": {"app": "web"}}},
    }
    assert service_manifest(ServiceOptions(name="svc", port=1), replicas)["spec"]["selector"] == {"app": "web"}
    replicas["spec"]["selector"] = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    with pytest.raises(RefusedError, match="match expressions"):
        service_manifest(ServiceOptions(name="svc", port=1), replicas)


@pytest.mark.parametrize("length", [1, 63, 64, 200])
def test_a_service_selects_what_a_label_of_the_pod_can_hold(length: int) -> None:
    exposed = {**VM, "kind": "VirtualMachineInstance", "metadata": {**VM["metadata"], "name": "x" * length}}
    selector = service_manifest(ServiceOptions(name="svc", port=1), exposed)["spec"]["selector"]
    assert selector == {VMI_ID: as_label_value("x" * length)}


def test_a_launched_vm_joins_the_networks_that_it_is_told_of() -> None:
    networks = ("lan", "site/lan", "default", "a.b", "a-b")
    spec = launch_manifest(LaunchOptions(name="web", image="i", networks=networks))["spec"]["template"]["spec"]
    named = [network["name"] for network in spec["networks"]]
    assert named == ["default", "lan", "site-lan", "default-3", "a-b", "a-b-5"]
    assert [network["multus"]["networkName"] for network in spec["networks"][1:]] == list(networks)
    assert [interface["name"] for interface in spec["domain"]["devices"]["interfaces"]] == named


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("instancetype --name x --cpu 0 --memory 1Gi", "--cpu"),
        ("instancetype --name x --cpu 1 --memory much", 'failed to parse "--memory" flag'),
        ("instancetype --name x --cpu 1 --memory 1Gi --gpu name:g", "devicename must be specified"),
        ("instancetype --name x --cpu 1 --memory 1Gi --iothreadspolicy many", "IOThread must be of value auto or"),
        ("preference --name x --cpu-topology pyramid", "CPU topology must have a value of"),
    ],
)
def test_what_is_no_type_is_refused_by_its_flag(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["create", *words.split()]) == Exit.USAGE
    assert told in capsys.readouterr().err
