# Tests: kvedge/controller/vmi/launcher_pod/launcher_pod_manifest.py
"""Each field of a VMI's spec shows in its Pod, is the guest's alone, or is refused by admission: none is ignored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvedge.api.admission.rules.not_yet_rules import VMI_NOT_YET
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.resources.codec import decode, encode
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec
from tests.support.builders import CONFIG, a_vmi

DISK = {"name": "root", "containerDisk": {"image": "disk:1"}}
IN_POD: dict[str, Any] = {
    "volumes": [DISK],
    "nodeSelector": {"a": "b"},
    "affinity": {"podAntiAffinity": {}},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [{"maxSkew": 1}],
    "priorityClassName": "high",
    "schedulerName": "another",
    "serviceAccountName": "web",
    "terminationGracePeriodSeconds": 5,
    "hostname": "other",
    "subdomain": "group",
    "dnsPolicy": "Default",
    "dnsConfig": {"nameservers": ["192.0.2.1"]},
    "architecture": "arm64",
    "livenessProbe": {"tcpSocket": {"port": 1}},
    "readinessProbe": {"tcpSocket": {"port": 1}},
    "accessCredentials": [
        {"sshPublicKey": {"source": {"secret": {"secretName": "keys"}}, "propagationMethod": {"noCloud": {}}}}
    ],
    "resourceClaims": [{"name": "cards", "resourceClaimName": "cards"}],
    "domain.resources": {"requests": {"cpu": "3"}},
    "domain.cpu": {"cores": 4, "model": "Nehalem"},
    "domain.memory": {"guest": "3Gi"},
    "domain.machine": {"type": "pc-q35-7.2"},
    "domain.devices": {"autoattachPodInterface": False},
    "domain.launchSecurity": {"sev": {}},
    "domain.firmware": {"kernelBoot": {"container": {"image": "kernel:1"}}},
}
# What the launcher, the handler or the api role does, and a Pod has no word for.
THE_GUESTS = {
    "utilityVolumes",
    "networks",
    "evictionStrategy",
    "startStrategy",
    "domain.clock",
    "domain.features",
    "domain.chassis",
    "domain.ioThreadsPolicy",
    "domain.ioThreads",
    "domain.rebootPolicy",
}


def test_every_field_of_a_vmi_is_somebodys():
    fields = {field.encode_name for field in msgspec.structs.fields(VirtualMachineInstanceSpec)} - {"domain"}
    fields |= {f"domain.{field.encode_name}" for field in msgspec.structs.fields(DomainSpec)}
    refused = {entry.path for entry in VMI_NOT_YET}
    assert fields - IN_POD.keys() - THE_GUESTS - refused == set()


@pytest.mark.parametrize("path", IN_POD)
def test_a_field_that_is_the_pods_changes_it(path):
    spec: dict[str, Any] = {"domain": {"memory": {"guest": "1Gi"}}}
    plain, asking = a_vmi(), a_vmi()
    plain.spec = decode(VirtualMachineInstanceSpec, spec)
    parent, _, name = path.rpartition(".")
    (spec[parent] if parent else spec)[name] = IN_POD[path]
    asking.spec = decode(VirtualMachineInstanceSpec, spec)
    assert encode(launcher_pod(plain, CONFIG)) != encode(launcher_pod(asking, CONFIG))


def test_a_name_server_with_leading_zeros_is_written_anew_for_the_pod():
    """A kubelet would hand 010.0.0.1 on, and a C library takes it for 8.0.0.1."""
    vmi = a_vmi()
    vmi.spec.dns_config = {"nameservers": ["010.0.0.1", "fd00::1"], "searches": ["a"]}
    made = launcher_pod(vmi, CONFIG).spec.dns_config
    assert made == {"nameservers": ["10.0.0.1", "fd00::1"], "searches": ["a"]}
