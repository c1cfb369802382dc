# Tests: kvedge/api/admission/rules/, kvedge/api/admission/rules/networks/multus_rules.py
"""Each rule about a VMI's spec: what is wrong, where, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.causes import Field
from kvedge.api.admission.rules.subject import Cluster, Subject
from kvedge.api.admission.spec_verdict import SPEC_RULES
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.configuration.feature_gates import FeatureGates
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import put, small_vmi, vm_of
from tests.support.reviews import request
from tests.unit.api.admission.rules.wrong_disks import WRONG_DISKS
from tests.unit.api.admission.rules.wrong_machines import WRONG_MACHINES
from tests.unit.api.admission.rules.wrong_networks import WRONG_NETWORKS, joined
from tests.unit.api.admission.rules.wrong_places import WRONG_PLACES
from tests.unit.api.admission.rules.wrong_probes import WRONG_PROBES
from tests.unit.api.admission.rules.wrong_volumes import WRONG_VOLUMES

NIC = "domain.devices.interfaces[0]"
WRONG = WRONG_MACHINES | WRONG_DISKS | WRONG_NETWORKS | WRONG_PLACES | WRONG_PROBES | WRONG_VOLUMES


def causes(vmi: JsonObject) -> list[tuple[str, str]]:
    return [(cause.field, cause.message) for cause in plan_verdict(request(vmi), Cluster("amd64")).causes]


def changed(changes: dict[str, Any]) -> JsonObject:
    vmi = small_vmi()
    for path, value in changes.items():
        put(vmi["spec"], path, value)
    return vmi


def test_the_small_vmi_is_valid() -> None:
    assert causes(small_vmi()) == []


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case: str) -> None:
    changes, field, words = WRONG[case]
    found = causes(changed(changes))
    assert any(at == field and words in message for at, message in found), found


@pytest.mark.parametrize("case", WRONG)
def test_one_mistake_has_few_causes(case: str) -> None:
    changes, _, _ = WRONG[case]
    assert len(causes(changed(changes))) <= 2


@pytest.mark.parametrize("case", WRONG_NETWORKS)
def test_no_two_rules_say_the_same(case: str) -> None:
    vmi = decode(VirtualMachineInstance, changed(WRONG[case][0]))
    subject = Subject(vmi.spec, vmi.metadata, Field("spec"), Field("metadata"), Cluster("amd64"), False)
    found = [cause for rule in SPEC_RULES for cause in rule(subject)]
    assert len(set(found)) == len(found), found


RIGHT: dict[str, dict[str, Any]] = {
    "a network of the VM's namespace": joined({"multus": {"networkName": "red"}}),
    "a network of another namespace": joined({"multus": {"networkName": "site/red"}}),
    "a function of a NIC": joined(
        {"multus": {"networkName": "red"}},
        {
            "sriov": {},
            "macAddress": "02:00:00:00:00:01",
            "pciAddress": "0000:00:0c.0",
            "tag": "fast",
            "model": "virtio",
        },
    ),
    "a network in place of the cluster's": {
        "networks": [{"name": "default", "multus": {"networkName": "site/red", "default": True}}],
        "domain.devices.interfaces": [{"name": "default", "bridge": {}}],
    },
    "a network beside no other": {
        "networks": [{"name": "default", "multus": {"networkName": "red"}}],
    },
    "a page as readiness": {
        "readinessProbe": {
            "httpGet": {
                "port": 8080,
                "path": "/ready",
                "scheme": "HTTPS",
                "httpHeaders": [{"name": "X-A", "value": ""}],
            },
            "successThreshold": 2,
        }
    },
    "a port with a name": {
        f"{NIC}.ports": [{"name": "web", "port": 80}],
        "livenessProbe": {"tcpSocket": {"port": "web"}, "initialDelaySeconds": 120},
    },
    "programs by the agent": {
        "readinessProbe": {"exec": {"command": ["sh", "-c", "true"]}, "timeoutSeconds": 5},
        "livenessProbe": {"guestAgentPing": {}, "failureThreshold": 10},
    },
    "the agent without a network": {
        "domain.devices.interfaces": [],
        "domain.devices.autoattachPodInterface": False,
        "networks": [],
        "readinessProbe": {"guestAgentPing": {}},
    },
    "readiness of a guest that waits": {"startStrategy": "Paused", "readinessProbe": {"guestAgentPing": {}}},
    "an empty CD-ROM drive": {"domain.devices.disks[1]": {"name": "drive", "cdrom": {"bus": "sata"}}},
    "secure boot with SMM": {"domain.firmware.bootloader.efi": {}, "domain.features.smm": {}},
    "UEFI": {"domain.firmware.bootloader.efi": {"secureBoot": False}},
    "a versioned machine": {"domain.machine.type": "pc-q35-7.2"},
    "a kernel": {
        "domain.firmware.kernelBoot": {
            "kernelArgs": "quiet",
            "container": {"image": "k", "kernelPath": "/boot/vmlinuz"},
        }
    },
    "huge pages": {"domain.memory": {"guest": "64Mi", "hugepages": {"pageSize": "2Mi"}}},
    "huge pages alone": {"domain.memory": {"hugepages": {"pageSize": "1Gi"}}},
    "licence tables": {
        "domain.firmware.acpi": {"slicNameRef": "licence", "msdmNameRef": "licence"},
        "volumes[1]": {"name": "licence", "secret": {"secretName": "s"}},
    },
    "a CD-ROM that is not read-only": {"domain.devices.disks[0]": {"name": "root", "cdrom": {"readonly": False}}},
    "all timers": {
        "domain.clock": {
            "utc": {},
            "timer": {
                "hpet": {"present": False},
                "kvm": {},
                "pit": {"tickPolicy": "delay"},
                "rtc": {"tickPolicy": "catchup", "track": "guest"},
                "hyperv": {},
            },
        }
    },
    "fractions of a cpu": {"domain.resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": 2}}},
    "e1000e with a MAC": {f"{NIC}.model": "e1000e", f"{NIC}.macAddress": "52:54:00:12:34:56"},
    "a MAC with dashes": {f"{NIC}.macAddress": "52-54-00-12-34-56"},
    "DHCP options": {
        f"{NIC}.dhcpOptions": {
            "bootFileName": "b",
            "ntpServers": ["10.0.0.1", "0127.0.0.3", "::ffff:10.0.0.1"],
            "privateOptions": [{"option": 224, "value": "x"}],
        }
    },
    "no network": {"networks": [], "domain.devices.interfaces": [], "domain.devices.autoattachPodInterface": False},
    "a start that waits": {"startStrategy": "Paused"},
    "no eviction": {"evictionStrategy": "None"},
    "eviction if possible": {"evictionStrategy": "LiveMigrateIfPossible"},
    "eviction by a move": {"evictionStrategy": "LiveMigrate"},
    "eviction by another controller": {"evictionStrategy": "External"},
    "IO threads": {"domain.ioThreadsPolicy": "supplementalPool", "domain.ioThreads.supplementalPoolThreadCount": 2},
    "large data from a secret": {
        "volumes[0]": {
            "name": "root",
            "cloudInitConfigDrive": {"secretRef": {"name": "s"}, "networkDataSecretRef": {"name": "n"}},
        }
    },
    "hyper-v": {
        "domain.features": {
            "acpi": {},
            "apic": {},
            "hyperv": {"relaxed": {}, "vapic": {}, "spinlocks": {"spinlocks": 8191}},
        }
    },
    "a panic device": {"domain.devices.panicDevices": [{"model": "pvpanic"}]},
    "a place on the best nodes": {
        "nodeSelector": {"kubernetes.io/hostname": "box-1", "gpu": ""},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "memory-gib", "operator": "Gt", "values": ["7"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["box-1"]}]},
                    ]
                },
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "topologyKey": "kubernetes.io/hostname",
                            "labelSelector": {"matchLabels": {"app": "web"}},
                        },
                    }
                ]
            },
        },
        "tolerations": [{"operator": "Exists"}, {"key": "edge", "effect": "NoExecute", "tolerationSeconds": 30}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
    },
    "name servers with leading zeros": {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["8.8.8.8", "01.1.1.1"]}},
    "a serial number with blanks": {"domain.firmware.serial": "4b2f5496-f3a3 460b/a375 (2), r\u00e4ck 7"},
    "more of everything than a node has": {
        "domain.cpu": {"sockets": 1_000_000, "cores": 1, "threads": 1},
        "domain.resources": {"requests": {"cpu": "1M", "memory": "1Ei"}},
        "domain.memory": {"guest": "1Ei"},
    },
    "search domains": {"dnsConfig": {"searches": ["example.org", "lan."], "options": [{"name": "ndots"}]}},
    "nothing of what is not there yet": {"domain.devices.gpus": [], "domain.cpu.dedicatedCpuPlacement": False},
}


@pytest.mark.parametrize("case", RIGHT)
def test_what_is_right_enters(case: str) -> None:
    assert causes(changed(RIGHT[case])) == []


@pytest.mark.parametrize("name", ["kvedge.io/autostart-order", "kvedge.io/autostart-delay"])
@pytest.mark.parametrize("text", ["soon", "-1", "1.5", "", "1234567", "٣"])
def test_the_order_of_starts_is_in_numbers(name: str, text: str) -> None:
    vmi = small_vmi()
    vmi["metadata"]["annotations"] = {name: text}
    assert [at for at, _ in causes(vmi)] == [f"metadata.annotations[{name}]"]
    vmi["metadata"]["annotations"] = {name: "10"}
    assert causes(vmi) == []


def test_what_happens_on_the_loss_of_a_node_is_one_of_two_words() -> None:
    vmi, at = small_vmi(), "metadata.annotations[kvedge.io/on-node-loss]"
    for word in ("wait", "restart"):
        vmi["metadata"]["annotations"] = {"kvedge.io/on-node-loss": word}
        assert causes(vmi) == []
    vmi["metadata"]["annotations"] = {"kvedge.io/on-node-loss": "Restart"}
    assert causes(vmi) == [(at, f"{at}: 'Restart' is not supported; use wait or restart")]


def test_viewers_reach_a_screen_by_one_of_two_words() -> None:
    vmi, at = small_vmi(), "metadata.annotations[kvedge.io/graphics]"
    for word in ("vnc", "spice"):
        vmi["metadata"]["annotations"] = {"kvedge.io/graphics": word}
        assert causes(vmi) == []
    vmi["spec"]["domain"].setdefault("devices", {})["autoattachGraphicsDevice"] = False
    screen = "spec.domain.devices.autoattachGraphicsDevice"
    assert causes(vmi) == [(at, f"{at}: there is no screen to show; remove it, or {screen}: false")]
    vmi["metadata"]["annotations"] = {"kvedge.io/graphics": "S" * 1000}
    assert causes(vmi) == [(at, f"{at}: {'S' * 64!r} is not supported; use vnc or spice")]


def reserved(**overhead: str) -> list[tuple[str, str]]:
    """What is wrong with a VMI that reserves this, where the gate is on."""
    gates = FeatureGates(enabled=frozenset({"ReservedOverheadMemlock"}))
    vmi = changed({"domain.memory.reservedOverhead": overhead})
    found = plan_verdict(request(vmi), Cluster("amd64", Configuration(gates=gates))).causes
    return [(cause.field, cause.message) for cause in found]


def test_an_overhead_is_an_amount_and_a_word_for_locked_memory() -> None:
    at = "spec.domain.memory.reservedOverhead"
    assert reserved(addedOverhead="100Mi", memLock="Required") == []
    assert [field for field, _ in reserved(addedOverhead="much")] == [f"{at}.addedOverhead"]
    assert [field for field, _ in reserved(addedOverhead="-1Mi")] == [f"{at}.addedOverhead"]
    text = f"{at}.memLock is not supported: Always (allowed values: [Required NotRequired])"
    assert reserved(memLock="Always") == [(f"{at}.memLock", text)]


def test_the_author_of_a_cdrom_that_is_to_be_written_is_warned() -> None:
    vmi = changed({"domain.devices.disks[0]": {"name": "root", "cdrom": {"readonly": False}}})
    warned = ["spec.domain.devices.disks[0].cdrom.readonly: false has no effect, as no guest writes to a CD-ROM"]
    assert list(plan_verdict(request(vmi), Cluster("amd64")).warnings) == warned
    told = plan_verdict(request(vm_of(vmi)), Cluster("amd64")).warnings
    assert list(told) == [f"spec.template.{text}" for text in warned]


def test_the_author_of_a_disk_that_asks_for_its_blocks_to_be_tracked_is_warned() -> None:
    disks = "spec.domain.devices.disks[0].changedBlockTracking"
    vmi = changed({"domain.devices.disks[0]": {"name": "root", "disk": {}, "changedBlockTracking": True}})
    found = plan_verdict(request(vmi), Cluster("amd64"))
    assert found.causes == ()
    assert [text.partition(":")[0] for text in found.warnings] == [disks]
    assert "changedBlockTrackingLabelSelectors" in found.warnings[0]


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ('{"ignition": {"version": "3.4.0"}}', True),
        ("", True),
        ("variant: fcos", False),
        ('{"ignition": "3.4.0"}', False),
        ('["ignition"]', False),
        ("[" * 100_000, False),
    ],
    ids=["a config", "none", "butane's own", "no version", "a list", "deeper than anybody reads"],
)
def test_a_config_for_ignition_is_json_where_the_gate_is_on(text: str, is_right: bool) -> None:
    gates = FeatureGates(enabled=frozenset({"ExperimentalIgnitionSupport"}))
    vmi = small_vmi()
    vmi["metadata"]["annotations"] = {"kubevirt.io/ignitiondata": text}
    found = plan_verdict(request(vmi), Cluster("amd64", Configuration(gates=gates))).causes
    at = "metadata.annotations[kubevirt.io/ignitiondata]"
    assert [cause.field for cause in found] == ([] if is_right else [at]), found


def delayed(seconds: str) -> JsonObject:
    vmi = small_vmi()
    vmi["metadata"]["annotations"] = {"kvedge.io/autostart-delay": seconds}
    return vmi


def test_nobody_has_all_others_wait_for_days() -> None:
    at = "metadata.annotations[kvedge.io/autostart-delay]"
    assert causes(delayed("601")) == [(at, f"{at}: 601 must be at most 600, as other VMs wait so many seconds")]
    assert causes(delayed("600")) == []


def test_a_vm_that_entered_with_a_longer_delay_is_started_and_stopped() -> None:
    cluster = Cluster("amd64")
    made = request(delayed("999999"), user="kvedge:controller", groups=["kvedge:controllers"])
    assert plan_verdict(made, cluster).causes == ()
    before, after = (vm_of(delayed("999999"), runStrategy=strategy) for strategy in ("Halted", "Always"))
    for vm in (before, after):
        vm["spec"]["template"]["metadata"] = delayed("999999")["metadata"]
    started = request(after, before, user="kvedge:api", groups=["kvedge:apis"])
    assert plan_verdict(started, cluster).causes == ()
    assert len(plan_verdict(request(after, before), cluster).causes) == 1
