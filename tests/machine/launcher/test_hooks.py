"""A launcher asks a hook sidecar before its guest starts: kvedge's own shim, libvirt and QEMU, without Kubernetes."""

from __future__ import annotations

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
