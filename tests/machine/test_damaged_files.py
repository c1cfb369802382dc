"""Each small file of a real box's data directory is damaged in turn: the box starts and says so.

What cannot be made anew without loss is refused, with a remedy. The files are found by walking, so that whatever a
later version writes is damaged too: it either says so, or has its reason in `SILENT`.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.appliance.host.health import check_health
from kvedge.handler.node.capability_seed import CAPABILITIES_FILE
from kvedge.handler.node.kvm_check import choose_accelerator
from kvedge.network.binding.binding_record import read_record
from kvedge.runtime.damaged_files import is_aside
from kvedge.runtime.linux.boot import read_boot_id
from kvedge.runtime.services import ServiceError
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.container.container_state import look_at_container
from kvedge.standalone.agent.container.log_times import read_times
from kvedge.standalone.agent.pod.local_pods import LocalPods
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi, StartFailed
from kvedge.standalone.apiserver.store.object_store_file import StoreError
from kvedge.standalone.box_lock import BoxLock
from kvedge.standalone.box_node import NodeName, node_name
from kvedge.standalone.volumes.volume_manifest import DEFAULT_NAME
from kvedge.storage.volumes.place_identity import PlaceIdentity
from kvedge.storage.volumes.volume_driver import PlaceMissing
from tests.machine.test_one_box import IMAGE
from tests.support.box import Box, small_vm
from tests.support.damages import DAMAGES, Damage
from tests.support.guest import build_guest

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

_LARGEST = 256 << 10

# Files of which nothing needs to be said, or others say it, and why.
SILENT = {
    r"standalone\.log": "the test's own",
    r"(state|images)/lock|.*\.lock": "its content means nothing",
    r"state/kvedge\.db-(wal|shm)": "SQLite's, which leaves out what is torn",
    r"state/kvedge\.db|backup/.*\.db": "the object store and its copies have tests of their own (test_store_copies)",
    r"images/.*": "the image store has tests of its own",
    r"kubelet/cpu_manager_state": "written anew at each start, and never read by the agent (test_cpu_pool)",
    r"kubelet/pods/[^/]+/(etc-hosts|resolv\.conf)": "written anew from the API's objects",
    r"kubelet/pods/[^/]+/containers/[^/]+\.process": "told to whoever has a program run there (test_probe_questions)",
    r"kubelet/pods/[^/]+/containers/[^/]+\.termination": "what a container itself wrote at its end",
    r"kubelet/pods/[^/]+/logs/.*": "what a container said, and when",
    r"kubelet/pods/[^/]+/volumes/.*": "the guest's own, read by its launcher alone",
    r"qemu-capabilities/.*": "a cache, which is compared and probed again (test_capability_seed)",
    r"state/audit/.*": "a log; `kvedge audit` leaves out what is torn",
    r"state/handler/usage/.*": "graphs, which begin anew; its guest's next look says so (test_usage_keeper)",
    r"state/handler/device-nodes/.*": "device nodes, which are compared and made again",
    r"volumes/\.manifests/.*": "written anew from the API's objects; `recover` tells of one that it cannot read",
}
ROLES = ("admin", "api", "handler", "controller")
# What others have been given, and trust: the start is refused.
REFUSED = re.compile(r"state/pki/(server|client)-ca\.(crt|key)")


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a box with a VM, as a power cut left it."""
    folder = tmp_path_factory.mktemp("box")
    box = Box(folder / "data", "10.98.173.0/24")
    box.data_dir.mkdir()
    try:
        box.import_image(build_guest().disk, IMAGE)
        box.start()
        box.apply(small_vm("web", IMAGE))
        box.wait_phase("web", "Running")
        box.wait_answer("web")
        box.end(signal.SIGKILL)
        _copy_tree(box.data_dir, folder / "left")
    finally:
        box.remove()
    return folder / "left"


def _copy_tree(source: Path, target: Path) -> None:
    for path in sorted(source.rglob("*")):
        goal = target / path.relative_to(source)
        if path.is_dir() and not path.is_symlink():
            goal.mkdir(parents=True, exist_ok=True)
        elif path.is_file() and not path.is_symlink() and path.stat().st_size <= 64 << 20:
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, goal)


def _copy_for_damage(left: Path, target: Path) -> None:
    """A copy whose images are the same files: nothing damages them (`SILENT`), and no start here writes them."""

    def copy(source: str, goal: str) -> None:
        same = Path(source).relative_to(left).parts[0] == "images"
        (os.link if same else shutil.copy2)(source, goal)

    shutil.copytree(left, target, copy_function=copy)


def _small_files(top: Path) -> Iterator[str]:
    for path in sorted(top.rglob("*")):
        name = str(path.relative_to(top))
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
            continue
        if not any(re.fullmatch(pattern, name) for pattern in SILENT):
            yield name


def _start(data: Path, expected: str) -> None:
    """What `kvedge standalone` reads at its start, in its order, and a look at each Pod."""
    state = data / "state"
    lock = BoxLock(data)
    lock.start()
    try:
        node = node_name(state, "", "another-host")
        assert node == expected
        NodeName(state, node, "").start()
        api = EmbeddedApi(ApiServerConfig(data, port=0, node_name=node))
        api.start()
        try:
            for name in ROLES:
                path = data / "kubeconfig" if name == "admin" else state / "kubeconfigs" / name
                api.write_kubeconfig(path, name, [])
            api.pki.front_proxy_tls()
        finally:
            api.stop()
        _read_pods(data)
        try:
            PlaceIdentity(data / "volumes", state / "volume-places" / DEFAULT_NAME, made_here=True).check()
        except PlaceMissing as error:
            # The service of volumes tells it in these words, and tries again.
            logging.getLogger("kvedge").error("%s", error)
        choose_accelerator("tcg", state)
    finally:
        lock.stop()


def _read_pods(data: Path) -> None:
    pods = LocalPods(data / "kubelet" / "pods")
    pods.adopt()
    for why in pods.list_damaged().values():
        # What becomes of them is the agent's tests' (test_damaged_records).
        logging.getLogger("kvedge").error("%s", why)
    for path in (data / "kubelet" / "pods").glob("*/containers/*.json"):
        look_at_container(PodFiles(path.parents[1]).container(path.stem), read_boot_id())
    for path in (data / "kubelet" / "pods").glob("*/logs/*.log"):
        read_times(path).at(0)
    for path in (data / "state" / "handler").glob("*/*.json"):
        read_record(path)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_box_starts_and_names_the_damaged_file(
    left: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Damage
) -> None:
    names, wrong = list(_small_files(left)), []
    assert {"state/layout", "state/node-name", "state/pki/client-ca.key", "kubeconfig"} <= set(names)
    assert any(name.endswith("/pod.json") for name in names)
    node = (left / "state" / "node-name").read_text().strip()
    for number, name in enumerate(names):
        data = tmp_path / str(number)
        _copy_for_damage(left, data)
        damage(data / name)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            try:
                _start(data, node)
            except (ServiceError, StartFailed, StoreError) as error:
                if not REFUSED.fullmatch(name) or str(data / name) not in str(error) or "restore" not in str(error):
                    wrong.append(f"{name}: refused with {error}")
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are looked at too
                wrong.append(f"{name}: {type(error).__name__}: {error}")
            else:
                if REFUSED.fullmatch(name):
                    wrong.append(f"{name}: not refused")
                elif str(data / name) not in caplog.text:
                    wrong.append(f"{name}: nothing was said")
        shutil.rmtree(data)
    assert not wrong, "\n".join(wrong)


def test_a_guest_that_runs_is_kept_while_everything_small_is_damaged_at_once(tmp_path: Path) -> None:
    box = Box(tmp_path / "data", "10.98.175.0/24")
    box.data_dir.mkdir()
    try:
        box.import_image(build_guest().disk, IMAGE)
        box.start()
        box.apply(small_vm("web", IMAGE))
        first = box.wait_phase("web", "Running")
        box.wait_answer("web")
        pids = box.qemu_pids(first.metadata.uid)
        box.end(signal.SIGKILL)
        state = box.data_dir / "state"
        (record,) = (box.data_dir / "kubelet" / "pods").glob("*/pod.json")
        damaged = [record, state / "node-name", state / "layout", *(state / "kubeconfigs").iterdir()]
        damaged += [box.data_dir / "qemu-capabilities" / CAPABILITIES_FILE, box.kubeconfig]
        damaged += [state / "pki" / name for name in ("server.crt", "front-proxy-ca.key", "service-account.key")]
        for path in damaged:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        box.start()
        assert box.wait_phase("web", "Running").metadata.uid == first.metadata.uid
        assert box.qemu_pids(first.metadata.uid) == pids
        box.wait_answer("web")
        (note,) = check_health(box.kubeconfig, None).notes
        assert "the record of pod default/virt-launcher-web" in note
        assert "damaged files were put aside" in note
        # Through the front proxy, whose authority is a new one.
        box.cli("stop", "web")
        said = box.log.read_text()
        assert [str(path) for path in damaged if path.name not in said] == []
        assert any(is_aside(path.name) for path in (state / "pki").iterdir())

        box.end(signal.SIGTERM)
        authority = state / "pki" / "client-ca.key"
        whole = authority.read_bytes()
        authority.write_bytes(whole[:100])
        refused = box.cli("standalone", "--data-dir", str(box.data_dir), check=False)
        assert refused.returncode != 0
        assert str(authority) in refused.stderr
        assert "kvedge state restore FILE" in refused.stderr
        authority.write_bytes(whole)
    finally:
        box.remove()
