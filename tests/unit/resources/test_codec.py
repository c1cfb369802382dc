"""Documents to types and back."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from kvedge.resources.codec import DecodeError, decode, decode_json, encode
from kvedge.resources.types.core import ContainerStatus, Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import InterfaceStatus, VirtualMachineInstance, VolumeStatus


def test_keys_are_those_of_the_api_also_where_capitals_are_odd() -> None:
    document = {
        "spec": {
            "domain": {
                "devices": {
                    "autoattachVSOCK": True,
                    "disks": [{"name": "a", "dedicatedIOThread": True}],
                    "interfaces": [{"name": "n", "dhcpOptions": {"tftpServerName": "t"}}],
                }
            },
            "networks": [{"name": "n", "pod": {"vmNetworkCIDR": "10.0.2.0/24"}}],
            "volumes": [{"name": "c", "cloudInitNoCloud": {"userDataBase64": "eA=="}}],
        }
    }
    back = encode(decode(VirtualMachineInstance, document))
    for key in ("devices",):
        assert back["spec"]["domain"][key] == document["spec"]["domain"][key]
    assert back["spec"]["networks"] == document["spec"]["networks"]
    assert back["spec"]["volumes"] == document["spec"]["volumes"]


def test_an_empty_object_means_something_and_is_kept() -> None:
    document = {"spec": {"domain": {"devices": {"rng": {}, "interfaces": [{"name": "n", "bridge": {}}]}}}}
    devices = encode(decode(VirtualMachineInstance, document))["spec"]["domain"]["devices"]
    assert devices == {"rng": {}, "interfaces": [{"name": "n", "bridge": {}}]}


def test_fields_that_clients_rely_on_are_always_written() -> None:
    assert msgspec.to_builtins(VolumeStatus(name="a", target="")) == {"name": "a", "target": ""}
    status = ContainerStatus(name="c", ready=False, restart_count=0, image="", image_id="")
    assert set(msgspec.to_builtins(status)) == {"name", "ready", "restartCount", "image", "imageID"}
    assert msgspec.to_builtins(InterfaceStatus()) == {}


def test_a_resource_carries_its_kind() -> None:
    assert encode(Pod())["apiVersion"] == "v1"
    assert encode(VirtualMachine())["kind"] == "VirtualMachine"


def test_an_error_names_the_field_as_kubernetes_does() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(VirtualMachine, {"spec": {"template": {"spec": {"domain": {"cpu": {"cores": "two"}}}}}})
    assert caught.value.path == "spec.template.spec.domain.cpu.cores"
    assert "int" in caught.value.detail


def test_text_that_is_no_json_is_an_error_of_ours() -> None:
    with pytest.raises(DecodeError, match="not valid JSON"):
        decode_json(Pod, b"{")


def test_two_resources_never_share_a_default() -> None:
    first, second = Pod(), Pod()
    first.metadata.labels["a"] = "b"
    assert second.metadata.labels == {}


_FIRST_TIME = """
import sys, threading
from kvedge.resources.codec import decode, decode_json
from kvedge.resources.types.core import Pod
sys.setswitchinterval(1e-6)
TEXT = b'{"spec": {"containers": [{"name": "c"}]}, "status": {"conditions": [{"type": "t", "status": "s"}]}}'
together = threading.Barrier(4)
def work():
    together.wait()
    decode_json(Pod, TEXT)
    decode(Pod, {"metadata": {"name": "n"}})
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


# As an api role does that starts anew while it is called already.
_FIRST_KINDS = """
import sys, threading
from kvedge.resources.codec import decode_json
from kvedge.resources.manifests.crd_manifest import crds
from kvedge.resources.types.vm import VirtualMachine
sys.setswitchinterval(1e-6)
TEXT = b'{"spec": {"template": {"spec": {"domain": {"devices": {"disks": [{"name": "d"}]}}}}}}'
together = threading.Barrier(4)
def work(step):
    together.wait()
    step()
steps = [crds, lambda: decode_json(VirtualMachine, TEXT)] * 2
threads = [threading.Thread(target=work, args=(step,)) for step in steps]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@pytest.mark.parametrize("script", [_FIRST_TIME, _FIRST_KINDS], ids=["documents", "kinds"])
def test_threads_that_meet_a_type_for_the_first_time_at_once_do_not_crash_the_process(script: str) -> None:
    # Without learn() nine of ten such processes ended by SIGSEGV.
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
