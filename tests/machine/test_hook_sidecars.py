"""Hook sidecars on one box: scripts of a ConfigMap change what a guest is and what cloud-init tells it.

The sidecars have no image: kvedge's own shim runs the scripts with the host's programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.kubevirt import KubeVirt
from tests.support.box import Box, small_vm
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

IMAGE = "local/guest:1"
# The board's maker, into the place where the domain's other SMBIOS tables are.
BOARD = """#!/usr/bin/python3
import sys
import xml.etree.ElementTree as ET

domain = ET.fromstring(sys.argv[sys.argv.index("--domain") + 1])
board = ET.SubElement(domain.find("sysinfo"), "baseBoard")
ET.SubElement(board, "entry", {"name": "manufacturer"}).text = "Radical Edward"
print(ET.tostring(domain, encoding="unicode"))
"""
# Not by echo, which would write the lines that JSON names.
NOTE = "#!/bin/sh\nprintf '%s' \"$4\" | sed 's/by nobody/by a hook/'\n"
WORDS = """#!/bin/sh
echo "board of $(cat /sys/class/dmi/id/board_vendor), told by nobody" >/dev/ttyS0
"""
BROKEN = "#!/bin/sh\necho no such board >&2\nexit 3\n"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.93.78.0/24", IMAGE) as found:
        wait_until(lambda: found.client.list(KubeVirt), "the KubeVirt object is made")
        gates = {"developerConfiguration": {"featureGates": ["Sidecar"]}}
        found.client.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch({"spec": {"configuration": gates}}))
        generation = found.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt").metadata.generation
        wait_until(
            lambda: found.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt").status.observed_generation == generation,
            "the gate is seen",
        )
        yield found


def scripts(name: str, **texts: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": texts}


def sidecar(version: str, config_map: str, hook: str) -> JsonObject:
    script = {"name": config_map, "key": hook, "hookPath": f"/usr/bin/{hook}"}
    return {"args": ["--version", version], "configMap": script}


def hooked(name: str, *sidecars: JsonObject, user_data: str = WORDS) -> JsonObject:
    made = small_vm(name, IMAGE)
    template: Any = made["spec"]["template"]
    template["metadata"] = {"annotations": {"hooks.kubevirt.io/hookSidecars": json.dumps(sidecars)}}
    # Such a guest could move, but for its hooks.
    template["spec"]["domain"]["devices"]["interfaces"] = [{"name": "default", "masquerade": {}}]
    template["spec"]["volumes"].append({"name": "seed", "cloudInitNoCloud": {"userData": user_data}})
    template["spec"]["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    return made


def console(box: Box, name: str) -> str:
    vmi = box.vmi(name)
    pods = [] if vmi is None else box.pods(vmi)
    logs = [log for pod in pods for log in (box.data_dir / "kubelet/pods" / pod.metadata.uid).rglob("virt-serial0-log")]
    return "".join(log.read_text(errors="replace") for log in logs)


def said(box: Box, name: str) -> str:
    vmi = box.vmi(name)
    found = None if vmi is None else condition(vmi.status.conditions, "Synchronized")
    return "" if found is None else found.message


def test_scripts_change_the_guests_board_and_its_user_data(box: Box) -> None:
    box.apply(scripts("hooks", onDefineDomain=BOARD, preCloudInitIso=NOTE))
    define, iso = sidecar("v1alpha3", "hooks", "onDefineDomain"), sidecar("v1alpha2", "hooks", "preCloudInitIso")
    box.apply(hooked("hooked", define, iso))
    vmi = box.wait_phase("hooked", "Running")
    wait_until(lambda: "board of Radical Edward, told by a hook" in console(box, "hooked"), "the guest tells", 240)
    stays = condition(vmi.status.conditions, "LiveMigratable")
    assert stays is not None
    assert (stays.status, stays.reason) == ("False", "HookSidecarsNotLiveMigratable")
    box.remove_vm("hooked")


def test_a_script_that_fails_is_told_with_its_sidecar_and_asked_again(box: Box) -> None:
    box.apply(scripts("broken", onDefineDomain=BROKEN))
    box.apply(hooked("waits", sidecar("v1alpha2", "broken", "onDefineDomain")))
    words = "hook sidecar hook-sidecar-0: OnDefineDomain failed: onDefineDomain ended with 3: no such board"
    wait_until(lambda: words in said(box, "waits"), "the VMI says which sidecar failed", 120)
    assert words in box.told("waits")
    box.apply(scripts("broken", onDefineDomain=BOARD))
    box.wait_phase("waits", "Running", 180)
    box.remove_vm("waits")
