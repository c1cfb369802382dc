"""The guest agent as a user of one box sees it: the VMI's status, and what an unmodified virtctl prints."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kvedge.kube.errors import KubeError
from kvedge.launcher.agent.credential_plan import MARK
from kvedge.launcher.agent.guest_clock import LEAST_SECONDS
from kvedge.launcher.libvirt.libvirt_setup import SEED_DIRECTORY
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Event
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.agent_guest import FALSE_AGENT, RUN_PATH, USER_DATA
from tests.support.api_client import MERGE
from tests.support.api_servers import Kubectl
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

NAME = "agent"
METRICS = "/apis/subresources.kubevirt.io/v1/metrics"
IMAGE = "local/agent:1"
# The agent's way to set a password, which busybox has not.
CHPASSWD = """
printf '#!/bin/sh\\ncat >>/run/passwords\\n' >/usr/sbin/chpasswd
chmod 755 /usr/sbin/chpasswd
"""
SECRETS = "/api/v1/namespaces/default/secrets"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAnn ann@desk"
NEXT_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINxt ann@desk"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOth somebody@else"
CALLS = f"/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/{NAME}"


def source(name: str) -> JsonObject:
    return {"secret": {"secretName": name}}


def secret(name: str, **data: str) -> JsonObject:
    return {"metadata": {"name": name}, "stringData": data}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A box with one VM, whose guest has the agent."""
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.94.0.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest(agent=True).disk, IMAGE)
    found.start()
    vm = small_vm(NAME, IMAGE)
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["memory"]["guest"] = "192Mi"
    spec["domain"]["devices"]["disks"] += [{"name": name, "disk": {"bus": "virtio"}} for name in ("data", "seed")]
    user_data = USER_DATA.replace("/dev/vda", "/dev/vdb") + FALSE_AGENT + CHPASSWD
    spec["accessCredentials"] = [
        {"sshPublicKey": {"source": source("keys"), "propagationMethod": {"qemuGuestAgent": {"users": ["root"]}}}},
        {"userPassword": {"source": source("words"), "propagationMethod": {"qemuGuestAgent": {}}}},
    ]
    found.client.request("POST", SECRETS, secret("keys", key=f"{KEY}\n"))
    found.client.request("POST", SECRETS, secret("words", root="first"))
    spec["volumes"] += [
        {"name": "data", "emptyDisk": {"capacity": "16Mi"}},
        {"name": "seed", "cloudInitNoCloud": {"userData": user_data}},
    ]
    found.apply(vm)
    yield found
    found.client.delete(VirtualMachine, "default", NAME)
    found.wait_gone(NAME)
    found.remove()


@pytest.fixture(scope="module")
def virtctl(box: Box) -> Kubectl:
    return Kubectl(box.kubeconfig, "virtctl")


def vmi(box: Box) -> VirtualMachineInstance:
    found = box.vmi(NAME)
    assert found is not None
    return found


def wait_status(box: Box, words: str, check: object) -> VirtualMachineInstance:
    assert callable(check)
    return wait_until(lambda: v if check((v := vmi(box)).status) else None, words, 60)


def test_the_vmi_shows_what_the_agent_says(box: Box) -> None:
    box.wait_phase(NAME, "Running")
    found = wait_status(box, "the guest's system", lambda status: status.guest_os_info is not None)
    agent = condition(found.status.conditions, "AgentConnected")
    assert agent is not None
    assert agent.status == "True"
    assert condition(found.status.conditions, "AgentVersionNotSupported") is None
    assert found.status.guest_os_info is not None
    assert found.status.guest_os_info.id == "kvedge-guest"
    found = wait_status(box, "the agent's interfaces", lambda status: "guest-agent" in status.interfaces[0].info_source)
    nic = found.status.interfaces[0]
    assert (nic.name, nic.interface_name, nic.info_source) == ("default", "eth0", "domain, guest-agent")
    assert nic.ip_address in box.wait_answer(NAME)
    assert nic.ip_addresses[0] == nic.ip_address


def test_virtctl_prints_what_the_agent_says(virtctl: Kubectl) -> None:
    info = json.loads(virtctl.run("guestosinfo", NAME))
    assert info["os"]["id"] == "kvedge-guest"
    assert (info["hostname"], info["timezone"][-3:]) == (NAME, ", 0")
    assert {"name": "guest-ping", "enabled": True} in info["supportedCommands"]
    assert info["guestAgentVersion"][:1].isdigit()
    (mount,) = json.loads(virtctl.run("fslist", NAME))["items"]
    assert (mount["diskName"], mount["mountPoint"], mount["fileSystemType"]) == ("vdb", "/data", "ext2")
    assert 0 < mount["usedBytes"] < mount["totalBytes"]
    assert json.loads(virtctl.run("userlist", NAME))["items"] == []


def test_metrics_tell_how_full_the_guests_file_systems_are(box: Box, virtctl: Kubectl) -> None:
    (mount,) = json.loads(virtctl.run("fslist", NAME))["items"]
    admin = Kubectl(box.kubeconfig)

    def read() -> dict[str, tuple[dict[str, str], float]]:
        families = text_string_to_metric_families(admin.run("get", "--raw", METRICS))
        return {family.name: (sample.labels, sample.value) for family in families for sample in family.samples}

    used, capacity = "kubevirt_vmi_filesystem_used_bytes", "kubevirt_vmi_filesystem_capacity_bytes"
    found = wait_until(lambda: told if capacity in (told := read()) else None, "the file system is told of")
    labels = {"node": vmi(box).status.node_name, "namespace": "default", "name": NAME}
    labels |= {"disk_name": "vdb", "mount_point": "/data", "file_system_type": "ext2"}
    assert found[used] == (labels, mount["usedBytes"])
    assert found[capacity] == (labels, mount["totalBytes"])


def test_the_steps_of_the_start_are_told_in_order(box: Box) -> None:
    wait_until(lambda: "agent-connected" in box.cli("trace", NAME, "-o", "json").stdout, "the agent's step", 60)
    steps = json.loads(box.cli("trace", NAME, "-o", "json").stdout)["steps"]
    at = {item["step"]: item["unixMs"] for item in steps if item["precision"] == "millisecond"}
    for order in (
        "pod-made container-started launcher-begun imports-done libvirt-opened serving handed-over",
        # It serves a moment before it has noted that.
        "libvirt-opened launcher-connected sync-begun network-ready handed-over",
        "handed-over files-ready domain-defined dhcp-ready start-asked started status-published",
        "pod-seen launcher-connected sync-begun network-ready sync-done",
        "status-published sync-done status-patched",
        "started agent-connected",
    ):
        assert sorted(order.split(), key=lambda step: at[step]) == order.split()
    told = {item["step"] for item in steps if item["precision"] == "second"}
    assert told >= {"vmi-created", "pod-scheduled"}
    shown = box.cli("trace", NAME).stdout
    assert "are the start of QEMU by libvirt" in shown
    assert len(shown.splitlines()) < 30


def test_virtctl_saves_the_screen(virtctl: Kubectl, tmp_path: Path) -> None:
    virtctl.run("vnc", "screenshot", NAME, "--file", str(tmp_path / "screen.png"))
    picture = (tmp_path / "screen.png").read_bytes()
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.endswith(b"IEND\xaeB`\x82")


def test_virsh_in_the_launcher_shows_the_guest_without_its_secrets(box: Box) -> None:
    kubectl, domain = Kubectl(box.kubeconfig), f"default_{NAME}"
    (pod,) = box.pods(vmi(box))

    def virsh(*words: str) -> subprocess.CompletedProcess[str]:
        return kubectl.try_run("exec", pod.metadata.name, "-c", "compute", "--", "virsh", *words)

    # One record for each QEMU that libvirt has started to ask it what it can do.
    private = box.data_dir / "kubelet/pods" / pod.metadata.uid / "volumes/kubernetes.io~empty-dir/private"
    records = sorted((private / "libvirt" / SEED_DIRECTORY).iterdir())
    assert virsh("--quiet", "list", "--name").stdout == f"{domain}\n"
    document = ElementTree.fromstring(virsh("-c", "qemu+unix:///session?socket=x", "dumpxml", domain).stdout)
    assert document.findtext("uuid") == virsh("domuuid", "1").stdout.strip()
    assert document.get("type") == "qemu"
    # cloud-init's data is in a file of the launcher's, which the document names.
    text = ElementTree.tostring(document, encoding="unicode")
    assert f"/cloud-init-data/default/{NAME}/noCloud.iso" in text
    assert "/cgi-bin/run" not in text
    assert "passwd" not in text
    assert virsh("domstate", domain).stdout == "running\n\n"
    ((number, cpus),) = [line.split() for line in virsh("-q", "vcpupin", domain).stdout.splitlines()]
    assert (number, cpus[:1].isdigit()) == ("0", True)
    assert "vda" in virsh("domblklist", domain).stdout
    (address,) = {line.split()[3] for line in virsh("-q", "domifaddr", domain, "--source", "lease").stdout.splitlines()}
    assert address == vmi(box).status.interfaces[0].ip_address
    refused = virsh("destroy", domain)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "kvedge stop NAME" in refused.stderr
    assert virsh("-q", "list", "--name").stdout == f"{domain}\n"
    assert "Running hypervisor: QEMU " in virsh("version").stdout
    assert sorted((private / "libvirt" / SEED_DIRECTORY).iterdir()) == records


def test_keys_and_passwords_of_secrets_come_into_the_guest_and_follow_them_while_it_runs(box: Box) -> None:
    def trouble() -> str:
        found = condition(vmi(box).status.conditions, "AccessCredentialsSynchronized")
        return found.message or "none" if found is not None else "no condition"

    wait_until(lambda: trouble() == "none", "the guest has its keys and passwords", 60)
    assert hear_guest(box, "cat /.ssh/authorized_keys").split("\n")[0] == f"{KEY} {MARK}"
    assert hear_guest(box, "cat /run/passwords") == "root:first\n"
    # The agent ends the file without a line's end.
    in_guest(box, f"printf '\\n%s\\n' '{OTHER_KEY}' >>/.ssh/authorized_keys")
    box.client.request("PATCH", f"{SECRETS}/keys", {"stringData": {"key": NEXT_KEY}}, None, MERGE)
    box.client.request("PATCH", f"{SECRETS}/words", {"stringData": {"root": "second"}}, None, MERGE)
    expected = {OTHER_KEY, f"{NEXT_KEY} {MARK}"}

    def find_keys() -> set[str]:
        return {line for line in hear_guest(box, "cat /.ssh/authorized_keys").split("\n") if line}

    wait_until(lambda: find_keys() == expected, "the guest follows its Secret", 120)
    # A Secret of its own: it may come later.
    words = "root:first\nroot:second\n"
    wait_until(lambda: hear_guest(box, "cat /run/passwords") == words, "the guest follows its other Secret", 120)
    # The Secret is not the VM's own.
    call = ("credentials", "add-ssh-key", NAME, "--user", "root", "--value", KEY, "--force")
    assert 'added the key to secret "keys"' in box.cli(*call).stdout
    expected.add(f"{KEY} {MARK}")
    wait_until(lambda: find_keys() == expected, "the guest has the key of `kvedge credentials`", 120)
    assert KEY.split()[1] not in (box.data_dir / "standalone.log").read_text()


def test_a_guest_that_was_paused_gets_the_time_back(box: Box) -> None:
    def lag() -> float:
        return abs(time.time() - float(hear_guest(box, "date +%s")))

    in_guest(box, "date -s @1000000000")
    assert lag() > 3600
    box.client.request("PUT", f"{CALLS}/pause", {})
    wait_status(box, "it is paused", lambda status: condition(status.conditions, "Paused") is not None)
    paused = time.monotonic()
    wait_until(lambda: time.monotonic() - paused > LEAST_SECONDS, "it has stood for long enough", 10)
    box.client.request("PUT", f"{CALLS}/unpause", {})
    wait_until(lambda: lag() < 5, "its agent has set its clock", 60)


def test_a_frozen_guest_is_shown_and_thaws_by_itself(box: Box) -> None:
    box.client.request("PUT", f"{CALLS}/freeze", {"unfreezeTimeout": "20s"})
    wait_status(box, "it is frozen", lambda status: status.fs_freeze_status == "frozen")
    wait_status(box, "it thaws", lambda status: status.fs_freeze_status == "")
    box.client.request("PUT", f"{CALLS}/freeze")
    wait_status(box, "it is frozen", lambda status: status.fs_freeze_status == "frozen")
    box.client.request("PUT", f"{CALLS}/unfreeze")
    wait_status(box, "it is thawed", lambda status: status.fs_freeze_status == "")


def test_a_backup_freezes_the_guest_by_the_annotations_of_its_launcher(box: Box) -> None:
    """As Velero does it: the command of the annotation, in the container that it names."""
    kubectl = Kubectl(box.kubeconfig)
    vmi = box.wait_phase(NAME, "Running")
    (pod,) = box.pods(vmi)
    marks = pod.metadata.annotations
    for when, state in (("pre", "frozen"), ("post", "")):
        container = marks[f"{when}.hook.backup.velero.io/container"]
        command = json.loads(marks[f"{when}.hook.backup.velero.io/command"])
        done = kubectl.try_run("exec", pod.metadata.name, "-c", container, "--", *command)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        wait_status(box, f"it is {state or 'thawed'}", lambda status, state=state: status.fs_freeze_status == state)


def test_an_agent_that_misbehaves_is_told_by_an_event(box: Box) -> None:
    """Once, however long it goes on; then the real one comes back."""
    # Beforehand, so that it takes the guest no time to say it.
    answer = """(printf '%s' '{"return": ['; yes '{},' | head -n 400000 | tr -d '\\n'; echo '{}]}') >/run/answer"""
    in_guest(box, answer)
    in_guest(box, "killall qemu-ga; setsid fake 'cat /run/answer' </dev/null >/dev/null 2>&1 &")
    words = "The guest agent: its answer to guest-info is longer than 1024 KiB"

    def told() -> list[Event]:
        events = [e for e in box.client.list(Event, "default") if e.involved_object.name == NAME]
        return [event for event in events if event.reason == "GuestAgentTrouble"]

    (event,) = wait_until(told, "the event", 60)
    assert (event.type, event.message) == ("Warning", words)
    in_guest(box, "killall -9 fake; qemu-ga -d -p $(port)")
    wait_status(box, "the real agent is back", lambda status: "guest-agent" in status.interfaces[0].info_source)
    assert len(told()) == 1


def in_guest(box: Box, command: str) -> None:
    hear_guest(box, command)


def hear_guest(box: Box, command: str) -> str:
    url = f"http://{vmi(box).status.interfaces[0].ip_address}{RUN_PATH}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, data=command.encode()), timeout=60) as answer:
        assert answer.status == 200
        return str(answer.read().decode())


def test_a_stopped_guest_has_nothing_to_tell(box: Box, virtctl: Kubectl, tmp_path: Path) -> None:
    box.client.request("PUT", f"{CALLS}/pause", {})
    # As in KubeVirt, whatever a launcher refuses of a freeze is an internal error that names the command.
    with pytest.raises(KubeError, match=r"command Freeze failed: .*the guest is paused") as refused:
        box.client.request("PUT", f"{CALLS}/freeze", {})
    assert refused.value.status == 500
    # What was said before is still there.
    assert json.loads(virtctl.run("guestosinfo", NAME))["hostname"] == NAME
    box.client.request("PUT", f"{CALLS}/unpause", {})
    # A frozen guest can be stopped: it is thawed first.
    box.client.request("PUT", f"{CALLS}/freeze", {})
    box.cli("stop", NAME)
    box.wait_gone(NAME)
    reasons = {event.reason for event in box.client.list(Event, "default") if event.involved_object.name == NAME}
    assert "ShuttingDown" in reasons
    assert "Deleted" not in reasons, "the guest was killed instead of shut down"
    assert virtctl.try_run("guestosinfo", NAME).returncode != 0
