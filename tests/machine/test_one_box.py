"""One box, as a user sees it: real libvirt, QEMU and namespaces, a guest that boots, asks for DHCP and answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kvedge.kube.errors import Invalid, KubeError, NotFound
from kvedge.resources.types.cluster import IpAddress
from kvedge.resources.types.core import Event, Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.guest_box import guest_box
from tests.support.terminal import in_terminal
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

IMAGE = "local/guest:1"
METRICS = "/apis/subresources.kubevirt.io/v1/metrics"
MANIFESTS = Path(__file__).parents[1] / "support" / "manifests"


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    with guest_box(tmp_path_factory.mktemp("box"), "10.97.0.0/24", IMAGE) as found:
        yield found


@pytest.fixture
def name(box: Box, request: pytest.FixtureRequest) -> Iterator[str]:
    """A VM's name; the VM and its guest are gone at the end."""
    found = "t" + str(abs(hash(request.node.name)) % 100_000)
    yield found
    if box.process is None:
        box.start()
    box.remove_vm(found)


def gone(box: Box, kind: type[VirtualMachine], name: str) -> bool:
    try:
        box.client.get(kind, "default", name)
    except NotFound:
        return True
    return False


def events(box: Box, name: str) -> set[str]:
    return {event.reason for event in box.client.list(Event, "default") if event.involved_object.name == name}


def test_the_roles_reach_the_api_of_their_own_process_without_tcp_and_tls(box: Box) -> None:
    """Some seventy watches, whose two ends are in this process, would hold 10 MB of TLS."""
    assert box.process is not None
    process = psutil.Process(box.process.pid)
    to_api = [entry for entry in process.net_connections("tcp") if entry.raddr and entry.raddr.port == box.port]
    assert to_api == []
    # Both ends of each: what watches there were goes by these.
    assert len(process.net_connections("unix")) > 100
    # Of those that have no file to read at all, no key is on the disk.
    kept = (box.data_dir / "state" / "kubeconfigs").iterdir()
    assert {path.name for path in kept} == {"api", "controller", "handler"}


def test_a_vm_gets_its_address_by_dhcp_and_answers_http_on_it(box: Box, name: str) -> None:
    box.apply_by_verb(small_vm(name, IMAGE))
    vmi = box.wait_phase(name, "Running")
    assert [entry.phase for entry in vmi.status.phase_transition_timestamps] == [
        "Pending",
        "Scheduling",
        "Scheduled",
        "Running",
    ]
    page = box.wait_answer(name)
    assert vmi.status.interfaces[0].ip_address in page
    assert vmi.status.interfaces[0].mac in page.lower()
    vm = wait_until(lambda: v if (v := box.vm(name)).status.ready else None, "the VM is ready")
    assert (vm.status.printable_status, vm.status.created) == ("Running", True)
    assert len(box.qemu_pids(vmi.metadata.uid)) == 1
    wait_until(lambda: {"SuccessfulCreate", "Created", "Started"} <= events(box, name), "events tell the story")


def test_address_mac_and_firmware_uuid_survive_stop_and_start(box: Box, name: str) -> None:
    box.apply(small_vm(name, IMAGE))
    first = box.wait_phase(name, "Running")
    box.cli("stop", name)
    box.wait_gone(name)
    wait_until(lambda: box.vm(name).status.printable_status == "Stopped", "the VM is stopped")
    # Another VM must not get the address meanwhile.
    other = small_vm(f"{name}-other", IMAGE)
    box.apply(other)
    taken = box.wait_phase(f"{name}-other", "Running")
    box.cli("start", name)
    second = box.wait_phase(name, "Running")
    box.remove_vm(f"{name}-other")
    assert second.metadata.uid != first.metadata.uid
    assert second.status.interfaces[0].ip_address == first.status.interfaces[0].ip_address
    assert second.status.interfaces[0].mac == first.status.interfaces[0].mac
    assert taken.status.interfaces[0].ip_address != first.status.interfaces[0].ip_address
    assert second.spec.domain.firmware is not None
    assert first.spec.domain.firmware is not None
    assert second.spec.domain.firmware.uuid == first.spec.domain.firmware.uuid
    box.wait_answer(name)


@pytest.fixture
def no_huge_pages() -> Iterator[Path]:
    """The setting of the host's huge pages, none of which are set aside; afterwards it is as it was."""
    setting = Path("/proc/sys/vm/nr_hugepages")
    before = setting.read_text()
    setting.write_text("0\n")
    yield setting
    setting.write_text(before)


def test_a_guest_of_huge_pages_waits_until_its_box_has_set_them_aside(box: Box, name: str, no_huge_pages: Path) -> None:
    vm = small_vm(name, IMAGE)
    vm["spec"]["template"]["spec"]["domain"]["memory"] = {"guest": "128Mi", "hugepages": {"pageSize": "2Mi"}}
    box.apply(vm)
    wait_until(lambda: box.vm(name).status.printable_status == "ErrorUnschedulable", "the VM says why", 30)
    no_huge_pages.write_text("64\n")
    assert int(no_huge_pages.read_text()) == 64, "this machine has no room for 128 MiB of huge pages"
    vmi = box.wait_phase(name, "Running")
    box.wait_answer(name)
    (qemu,) = box.qemu_pids(vmi.metadata.uid)
    assert "Private_Hugetlb:  131072 kB" in Path(f"/proc/{qemu}/smaps_rollup").read_text()


def test_a_deleted_vm_is_shut_down_by_acpi_and_its_address_is_free_again(box: Box, name: str) -> None:
    box.apply(small_vm(name, IMAGE))
    vmi = box.wait_phase(name, "Running")
    box.wait_answer(name)
    address = vmi.status.interfaces[0].ip_address
    pod = box.pods(vmi)[0]
    box.client.delete(VirtualMachine, "default", name)
    wait_until(lambda: gone(box, VirtualMachine, name), "the VM is gone", 60)
    assert "ShuttingDown" in events(box, name)
    assert "Deleted" not in events(box, name), "the guest was killed instead of shut down"
    assert box.qemu_pids(vmi.metadata.uid) == []
    assert box.launcher_pids(vmi.metadata.uid) == []
    wait_until(lambda: not (box.data_dir / "kubelet" / "pods" / pod.metadata.uid).exists(), "its volumes are gone")
    wait_until(lambda: address not in {ip.metadata.name for ip in box.client.list(IpAddress)}, "its address is free")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "kill -9"])
def test_the_daemon_may_die_and_come_back_under_a_running_guest(box: Box, name: str, number: int) -> None:
    box.apply(small_vm(name, IMAGE))
    before = box.wait_phase(name, "Running")
    box.wait_answer(name)
    qemu = box.qemu_pids(before.metadata.uid)
    pods = [pod.metadata.uid for pod in box.pods(before)]
    box.end(number)
    assert box.qemu_pids(before.metadata.uid) == qemu
    box.start()
    box.wait_answer(name)
    after = box.wait_phase(name, "Running")
    assert after.metadata.uid == before.metadata.uid
    assert box.qemu_pids(before.metadata.uid) == qemu
    assert [pod.metadata.uid for pod in box.pods(after)] == pods
    # It is looked after again: a stop works.
    box.cli("stop", name)
    box.wait_gone(name)
    assert box.qemu_pids(before.metadata.uid) == []


def test_a_guest_that_ends_while_the_daemon_is_down_is_recorded_as_what_it_was(box: Box, name: str) -> None:
    box.apply(small_vm(name, IMAGE, run_strategy="Manual"))
    box.cli("start", name)
    vmi = box.wait_phase(name, "Running")
    (qemu,) = box.qemu_pids(vmi.metadata.uid)
    box.end(signal.SIGKILL)
    os.kill(qemu, signal.SIGKILL)
    wait_until(lambda: box.qemu_pids(vmi.metadata.uid) == [], "QEMU is gone")
    box.start()
    assert box.wait_phase(name, "Failed").metadata.uid == vmi.metadata.uid


def test_a_killed_qemu_makes_the_run_failed_and_the_vm_comes_back_once(box: Box, name: str) -> None:
    box.apply(small_vm(name, IMAGE))
    first = box.wait_phase(name, "Running")
    (qemu,) = box.qemu_pids(first.metadata.uid)
    os.kill(qemu, signal.SIGKILL)

    def second_run() -> VirtualMachineInstance | None:
        vmi = box.vmi(name)
        return vmi if vmi and vmi.metadata.uid != first.metadata.uid and vmi.status.phase == "Running" else None

    second = wait_until(second_run, "the VM runs again", 90)
    assert box.qemu_pids(first.metadata.uid) == []
    assert len(box.qemu_pids(second.metadata.uid)) == 1
    box.wait_answer(name)


def test_a_killed_launcher_is_started_again_under_the_running_guest(box: Box, name: str) -> None:
    box.apply(small_vm(name, IMAGE))
    vmi = box.wait_phase(name, "Running")
    qemu = box.qemu_pids(vmi.metadata.uid)
    monitor, launcher = box.launcher_pids(vmi.metadata.uid)
    os.kill(launcher, signal.SIGKILL)
    wait_until(
        lambda: len(pids := box.launcher_pids(vmi.metadata.uid)) == 2 and launcher not in pids, "a new launcher", 30
    )
    assert box.qemu_pids(vmi.metadata.uid) == qemu
    assert monitor in box.launcher_pids(vmi.metadata.uid)
    box.wait_answer(name)
    box.cli("stop", name)
    box.wait_gone(name)
    assert box.qemu_pids(vmi.metadata.uid) == []


def test_a_killed_monitor_takes_its_guest_along_and_the_vm_comes_back_once(box: Box, name: str) -> None:
    box.apply(small_vm(name, IMAGE))
    first = box.wait_phase(name, "Running")
    monitor = box.launcher_pids(first.metadata.uid)[0]
    os.kill(monitor, signal.SIGKILL)

    def second_run() -> VirtualMachineInstance | None:
        vmi = box.vmi(name)
        return vmi if vmi and vmi.metadata.uid != first.metadata.uid and vmi.status.phase == "Running" else None

    second = wait_until(second_run, "the VM runs again", 90)
    assert box.qemu_pids(first.metadata.uid) == []
    assert len(box.qemu_pids(second.metadata.uid)) == 1


def test_a_pod_that_is_deleted_by_force_takes_its_guest_along_and_the_vm_comes_back_once(box: Box, name: str) -> None:
    box.apply(small_vm(name, IMAGE))
    first = box.wait_phase(name, "Running")
    (pod,) = box.pods(first)
    # It does not hear that it is to end.
    os.kill(*box.qemu_pids(first.metadata.uid), signal.SIGSTOP)
    box.client.delete(Pod, "default", pod.metadata.name, grace_seconds=0)

    def second_run() -> VirtualMachineInstance | None:
        before, vmi = box.qemu_pids(first.metadata.uid), box.vmi(name)
        if vmi is None or vmi.metadata.uid == first.metadata.uid:
            return None
        assert before == []
        return vmi if vmi.status.phase == "Running" else None

    second = wait_until(second_run, "the VM runs again", 120)
    assert len(box.qemu_pids(second.metadata.uid)) == 1


def test_a_guest_that_powers_off_stays_off_with_rerun_on_failure(box: Box, name: str) -> None:
    box.apply(small_vm(name, IMAGE, run_strategy="RerunOnFailure"))
    vmi = box.wait_phase(name, "Running")
    box.wait_answer(name)
    box.cli("stop", name)
    box.wait_gone(name)
    assert box.vm(name).spec.run_strategy == "RerunOnFailure"
    assert box.qemu_pids(vmi.metadata.uid) == []


def test_the_manifest_of_a_real_user_works_as_written(box: Box) -> None:
    text = (MANIFESTS / "kubevirt-smoke-fedora.yaml").read_text()
    image = yaml.safe_load(text)["spec"]["template"]["spec"]["volumes"][0]["containerDisk"]["image"]
    box.import_image(build_guest().disk, image)
    box.apply(text)
    try:
        vmi = box.wait_phase("kubevirt-smoke-fedora", "Running")
        assert [item.target for item in vmi.status.volume_status] == ["vdc", "vda", "vdb"]
        page = box.wait_answer("kubevirt-smoke-fedora")
        assert "fedora" in page, "cloud-init's password did not arrive"
        table = box.cli("get", "vm", "kubevirt-smoke-fedora").stdout.split()
        assert table[:4] == ["NAME", "AGE", "STATUS", "READY"]
    finally:
        box.cli("delete", "vm", "kubevirt-smoke-fedora", "--timeout", "60")


def test_a_console_shows_what_the_guest_writes_and_takes_what_is_typed(box: Box, name: str) -> None:
    vm = small_vm(name, IMAGE)
    spec = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "init", "disk": {"bus": "virtio"}})
    data = "#cloud-config\npassword: secret\nchpasswd: { expire: false }\n"
    spec["volumes"].append({"name": "init", "cloudInitNoCloud": {"userData": data}})
    box.apply(vm)
    box.wait_phase(name, "Running")
    user = next(line.partition("=")[2] for line in box.wait_answer(name).splitlines() if line.startswith("login="))
    environment = {**os.environ, "KUBECONFIG": str(box.kubeconfig)}
    with in_terminal(box.command("console", name), environment) as (terminal, process):
        terminal.wait_for(b"Successfully connected")
        terminal.type_until("\r", b"login:")
        terminal.type(f"{user}\r")
        for asked, answer in ((b"assword:", "secret"), (b"$", "echo answer-$((6*7))")):
            terminal.wait_for(asked, 60)
            terminal.type(f"{answer}\r")
        terminal.wait_for(b"answer-42")
        # Ctrl+] leaves, and the terminal is given back.
        terminal.type("\x1d")
        assert process.wait(10) == 0


class TestBadInput:
    """What is wrong is refused when it is applied, with every cause, and nothing is created."""

    def test_every_cause_is_told_with_its_field(self, box: Box) -> None:
        vm = small_vm("bad", IMAGE)
        domain = vm["spec"]["template"]["spec"]["domain"]
        domain["clock"] = {"utc": {}, "timer": {"pit": {"frequency": 1}}}
        domain["devices"]["disks"][0]["disk"]["bus"] = "ide"
        domain["cpu"] = {"coers": 2}
        with pytest.raises(AssertionError) as caught:
            box.apply_by_verb(vm)
        text = str(caught.value)
        assert "spec.template.spec.domain.clock.timer.pit.frequency" in text
        assert "not supported by kvedge" in text
        assert "spec.template.spec.domain.devices.disks[0].disk.bus" in text
        assert "coers" in text
        assert gone(box, VirtualMachine, "bad")

    def test_a_missing_image_is_a_condition_and_ends_with_the_vm(self, box: Box, name: str) -> None:
        box.apply(small_vm(name, "local/none:1"))
        wait_until(
            lambda: box.vm(name).status.printable_status in ("ErrImagePull", "ImagePullBackOff"), "the VM says why", 30
        )
        vmi = box.vmi(name)
        assert vmi is not None
        text = " ".join(item.message for item in vmi.status.conditions)
        assert "local/none:1" in text

    def test_an_image_that_arrives_later_is_found(self, box: Box, name: str) -> None:
        image = f"local/{name}:1"
        box.apply(small_vm(name, image))
        wait_until(lambda: "Image" in box.vm(name).status.printable_status, "the image is missing", 30)
        box.import_image(build_guest().disk, image)
        box.wait_phase(name, "Running", 120)

    def test_a_memory_that_no_box_has_is_unschedulable_and_says_so(self, box: Box, name: str) -> None:
        vm = small_vm(name, IMAGE)
        vm["spec"]["template"]["spec"]["domain"]["memory"]["guest"] = "900Gi"
        box.apply(vm)
        wait_until(lambda: box.vm(name).status.printable_status == "ErrorUnschedulable", "the VM says why", 30)

    def test_cpus_that_no_box_has_are_unschedulable_and_say_so(self, box: Box, name: str) -> None:
        """KubeVirt's own test of an error status."""
        vm = small_vm(name, IMAGE)
        domain = vm["spec"]["template"]["spec"]["domain"]
        domain["resources"] = {"requests": {"cpu": "1M", "memory": "1Ei"}}
        domain.pop("memory", None)
        box.apply(vm)
        wait_until(lambda: box.vm(name).status.printable_status == "ErrorUnschedulable", "the VM says why", 30)

    def test_a_broken_disk_is_refused_by_the_store(self, box: Box, tmp_path: Path) -> None:
        broken = tmp_path / "broken.qcow2"
        broken.write_bytes(b"QFI\xfb\x00\x00\x00\x03" + bytes(4096))
        done = box.cli(
            "image", "import", str(broken), "--name", "local/broken:1", "--data-dir", str(box.data_dir), check=False
        )
        assert done.returncode == 1
        assert done.stderr.startswith("error: ")
        assert "qcow2" in done.stderr
        assert "local/broken" not in box.cli("image", "list", "--data-dir", str(box.data_dir)).stdout

    def test_the_spec_of_a_running_instance_cannot_be_changed(self, box: Box, name: str) -> None:
        box.apply(small_vm(name, IMAGE))
        vmi = box.wait_phase(name, "Running")
        path = VirtualMachineInstance.KIND.path("default", name)
        patch = {"spec": {"domain": {"memory": {"guest": "256Mi"}}}}
        with pytest.raises((Invalid, KubeError), match="update of VMI object is restricted"):
            box.client.request("PATCH", path, patch, media_type="application/merge-patch+json")
        now = box.vmi(name)
        assert now is not None
        assert now.spec == vmi.spec


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")
def test_kubectl_sees_tables_logs_events_and_what_the_guest_uses(box: Box, name: str) -> None:
    box.apply(small_vm(name, IMAGE))
    vmi = box.wait_phase(name, "Running")
    environment = {**os.environ, "KUBECONFIG": str(box.kubeconfig)}

    def kubectl(*arguments: str) -> str:
        done = subprocess.run(["kubectl", *arguments], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    kubectl("wait", "vm", name, "--for=condition=Ready", "--timeout=30s")
    row = kubectl("get", "vmi", name).splitlines()[1].split()
    assert row[0] == name
    assert row[2:4] == ["Running", vmi.status.interfaces[0].ip_address]
    pod = box.pods(vmi)[0].metadata.name
    assert kubectl("get", "pods").splitlines()[1].split()[:3:2] == [pod, "Running"] or pod in kubectl("get", "pods")
    assert "level=" in kubectl("logs", pod)
    assert "Started" in kubectl("get", "events")
    assert name in kubectl("describe", "vm", name)
    assert Pod.KIND.plural in kubectl("api-resources")
    wait_until(lambda: check_metrics(kubectl("get", "--raw", METRICS), name), "the guest's figures are there")
    (use,) = (use for use in json.loads(box.cli("top", "-o", "json").stdout) if use["name"] == name)
    assert use["answers"]
    assert use["cpus"] > 0
    assert use["residentBytes"] > 64 << 20
    check_top(kubectl("top", "node", "--no-headers"), kubectl("top", "pod", pod, "--containers", "--no-headers"), pod)
    roles = kubectl("get", "--raw", f"{METRICS}?roles=true")
    assert re.search(r"^kubevirt_virt_controller_leading_status{.*} 1$", roles, re.MULTILINE)
    assert re.search(r'^kubevirt_workqueue_adds_total{.*name="vm"} [1-9]', roles, re.MULTILINE)
    phases = r'^kubevirt_vmi_phase_transition_time_seconds_count{.*phase="Running",last_phase="Scheduled"} [1-9]'
    assert re.search(phases, roles, re.MULTILINE)
    assert re.search(rf'^kubevirt_vmi_sync_total{{.*name="{name}"}} [1-9]', roles, re.MULTILINE)
    (qemu,) = box.qemu_pids(vmi.metadata.uid)
    os.kill(qemu, signal.SIGSTOP)
    try:
        # The host still knows its CPU time, and nobody waits for QEMU: each scrape is over in seconds.
        wait_until(lambda: check_host_figures(kubectl("get", "--raw", METRICS), name), "QEMU is told to hang")
    finally:
        os.kill(qemu, signal.SIGCONT)
    wait_until(lambda: check_metrics(kubectl("get", "--raw", METRICS), name), "the guest's figures are back")


def check_top(node: str, pod: str, name: str) -> None:
    """`kubectl top` of the box and of the guest's Pod: both use CPU, and the guest's memory is in the box's."""
    box_cpu, _, box_memory, _ = node.split()[1:]
    told, container, cpu, memory = pod.split()
    assert (told, container) == (name, "compute")
    assert 0 < int(cpu.removesuffix("m")) <= int(box_cpu.removesuffix("m")) * 2
    assert 32 < int(memory.removesuffix("Mi")) < int(box_memory.removesuffix("Mi"))


def read_metrics(text: str, name: str) -> dict[str, Sample]:
    """One sample of each of the VMI's metrics, as Prometheus reads them."""
    families = text_string_to_metric_families(text)
    found = (sample for family in families for sample in family.samples)
    return {sample.name: sample for sample in found if sample.labels.get("name") == name}


def check_host_figures(text: str, name: str) -> bool:
    """Whether the guest has the figures alone that the host knows."""
    found = read_metrics(text, name)
    if found["kvedge_vmi_stats_up"].value or "kubevirt_vmi_cpu_usage_seconds_total" not in found:
        return False
    assert "kubevirt_vmi_network_transmit_bytes_total" in found
    assert "kubevirt_vmi_storage_read_traffic_bytes_total" not in found
    return True


def check_metrics(text: str, name: str) -> bool:
    """Whether the guest has figures of each kind yet."""
    found = read_metrics(text, name)
    if found["kvedge_vmi_stats_up"].value != 1 or not found["kubevirt_vmi_network_transmit_bytes_total"].value:
        return False
    assert found["kubevirt_vmi_cpu_usage_seconds_total"].value > 0
    assert found["kubevirt_vmi_vcpu_seconds_total"].labels["id"] == "0"
    assert found["kubevirt_vmi_memory_domain_bytes"].value > 1 << 20
    # One vCPU, which may use each CPU of this machine.
    assert found["kubevirt_vmi_node_cpu_affinity"].value >= len(os.sched_getaffinity(0))
    # QEMU measures for a second, and the next scrape has it.
    if "kubevirt_vmi_dirty_rate_bytes_per_second" not in found:
        return False
    assert found["kubevirt_vmi_network_transmit_bytes_total"].labels["interface"] == "default"
    assert not found["kubevirt_vmi_storage_read_traffic_bytes_total"].labels["drive"].startswith("ua-")
    assert found["kubevirt_vmi_info"].labels["phase"] == "running"
    return True


def test_a_vm_with_the_longest_name_runs_and_a_longer_one_is_refused(box: Box) -> None:
    """libvirt keeps `default_NAME.xml.new`, and a file's name has at most 255 bytes."""
    longest = "t" * 237
    with pytest.raises(KubeError, match="no more than 237 characters in this namespace"):
        box.apply(small_vm(f"{longest}t", IMAGE))
    box.apply(small_vm(longest, IMAGE))
    try:
        vmi = box.wait_phase(longest, "Running")
        (pod,) = box.pods(vmi)
        label = pod.metadata.labels["vmi.kubevirt.io/id"]
        assert (len(label), label.rpartition("-")[0]) == (63, "t" * 54)
        wait_until(lambda: any(each.startswith("Started") for each in events(box, longest)), "its events are kept")
    finally:
        box.remove_vm(longest)
