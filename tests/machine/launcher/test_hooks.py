"""A launcher asks a hook sidecar before its guest starts: kvedge's own shim, libvirt and QEMU, without Kubernetes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from kvedge.rpc import launcher_pb2 as m
from tests.support.launcher_pod import QEMU_USER, LauncherPod, launcher_pod

pytestmark = pytest.mark.machine

BOARD = """#!/bin/sh
echo "$4" | sed 's|<sysinfo type="smbios">|&<baseBoard><entry name="manufacturer">Radical Edward</entry></baseBoard>|'
"""
BROKEN = "#!/bin/sh\necho no such board >&2\nexit 3\n"
# What the sidecar of a network binding plugin may be: it makes the interface for which no link was prepared.
NIC = """#!/bin/sh
nic='<mac address="52:54:00:00:00:07"/><model type="virtio"/><alias name="ua-default"/>'
nic="<interface type='user'>$nic</interface>"
echo "$4" | sed "s|</devices>|$nic&|"
"""
VCPUS = "#!/bin/sh\necho \"$4\" | sed 's|<vcpu[^>]*>[0-9]*|<vcpu>none|'\n"
# The sidecar has its own directory where the launcher has that of all.
SHIM = f"""
bind "$pod/hooks" /run/kubevirt-hooks
bind "$pod/scripts" /run/scripts
unshare --mount sh -c 'mount --bind "$1/hooks/hook-sidecar-0" /run/kubevirt-hooks
PATH="/run/scripts:$PATH" exec setpriv --reuid {QEMU_USER} --regid {QEMU_USER} --clear-groups -- \
    {sys.executable} -P -m kvedge launcher --hook-shim --version v1alpha3' shim "$pod" &
"""


@pytest.fixture
def pod(tmp_path: Path, seed: Path) -> Iterator[LauncherPod]:
    sockets = tmp_path / "hooks/hook-sidecar-0"
    sockets.mkdir(parents=True)
    sockets.chmod(0o777)
    (tmp_path / "scripts").mkdir()
    write_script(tmp_path, BOARD)
    with launcher_pod(tmp_path, seed=seed, options=("--hook-sidecars", "1"), before=SHIM) as started:
        yield started


def write_script(directory: Path, text: str) -> None:
    path = directory / "scripts/onDefineDomain"
    path.write_text(text)
    path.chmod(0o755)


def test_a_script_changes_the_domain_that_starts_and_the_sidecar_is_told_of_the_end(pod: LauncherPod) -> None:
    assert pod.sync().state == m.DOMAIN_STATE_RUNNING
    assert "Radical Edward" in pod.call("DescribeDomain").document
    pod.call("Kill")
    pod.call("Delete")
    pod.wait_exit()
    assert "was not told of the end" not in pod.log
    assert "the guest has ended, and so does its hook sidecar" in pod.log


def test_a_script_that_fails_is_named_and_asked_again(pod: LauncherPod) -> None:
    write_script(pod.directory, BROKEN)
    with pytest.raises(grpc.RpcError) as refused:
        pod.sync()
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert (
        "hook-sidecar-0: OnDefineDomain failed: onDefineDomain ended with 3: no such board" in refused.value.details()
    )
    write_script(pod.directory, BOARD)
    assert pod.sync().state == m.DOMAIN_STATE_RUNNING


def test_a_domain_that_libvirt_refuses_is_its_sidecars(pod: LauncherPod) -> None:
    write_script(pod.directory, VCPUS)
    with pytest.raises(grpc.RpcError) as refused:
        pod.sync()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "hook sidecar hook-sidecar-0 changed the domain into what libvirt refuses" in refused.value.details()


def test_the_sidecar_of_a_binding_plugin_makes_the_guests_interface(pod: LauncherPod) -> None:
    write_script(pod.directory, NIC)
    nic = {"name": "default", "binding": {"name": "site"}, "macAddress": "52:54:00:00:00:07"}
    domain = {"memory": {"guest": "64Mi"}, "devices": {"interfaces": [nic]}}
    vmi = pod.vmi(domain=domain, networks=[{"name": "default", "pod": {}}])
    request = m.SyncRequest(
        vmi_json=json.dumps(vmi).encode(),
        interfaces=[m.GuestInterface(name="default", mac="52:54:00:00:00:07", mtu=1450)],
        options=m.NodeOptions(emulation=True),
        memory_bytes=64 << 20,
    )
    for _ in range(2):
        # The second Sync finds a guest that has all that it is to have.
        status = pod.call("Sync", request, 60)
        assert status.state == m.DOMAIN_STATE_RUNNING
        assert [(each.name, each.mac) for each in status.nics] == [("default", "52:54:00:00:00:07")]
        assert list(status.nic_troubles) == []
    assert "<interface type='user'>" in pod.call("DescribeDomain").document
