"""The same file on Debian 12 and on Debian 13, each with its own libvirt and QEMU."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machine.appliance.one_file import the_tree
from tests.support.box import small_vm
from tests.support.debian_box import DebianBox, cached_tree
from tests.support.guest import build_guest

pytestmark = [pytest.mark.machine, pytest.mark.timeout(900)]

IMAGE = "local/guest:1"
LIBVIRT = {"bookworm": "9.", "trixie": "11."}


@pytest.fixture(params=sorted(LIBVIRT))
def suite(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def box(suite: str, program: Path) -> Iterator[DebianBox]:
    tree = cached_tree(suite)
    if tree is None:
        pytest.skip(f"no tree of {suite}: set KVEDGE_TEST_DEBIAN=1 to make it with mmdebstrap (minutes, 400 MB)")
    directory = Path(tempfile.mkdtemp(prefix="kvedge-test-", dir="/var/tmp"))
    directory.chmod(0o755)
    found = DebianBox(tree, directory, program, "10.91.0.0/24")
    yield found
    found.remove()
    (directory / "kvedge").unlink()
    directory.rmdir()


def test_a_vm_boots_with_the_hosts_own_libvirt_and_qemu(suite: str, box: DebianBox) -> None:
    assert box.run("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME").strip() == suite
    version = box.run("dpkg-query", "-W", "-f", "${Version}", "libvirt0")
    assert version.startswith(LIBVIRT[suite])
    box.import_image(build_guest().disk, IMAGE)
    box.start()
    box.apply(small_vm("there", IMAGE))
    uid = box.wait_phase("there", "Running").metadata.uid
    assert "Hello from there" in box.wait_answer("there")
    assert box.run("ls", "-A", "/tmp") == ""

    tree = the_tree(box.data_dir / "data")
    shipped = {path.name for path in tree.rglob("*.so*")}
    listed = subprocess.run(
        [*box.prefix, "sh", "-c", "find /usr/lib -path '*/libvirt/*.so' | xargs ldd"], capture_output=True, text=True
    ).stdout
    of_libvirt = set(re.findall(r"^\s*(\S+) => /", listed, re.MULTILINE))
    assert {"libvirt.so.0", "libglib-2.0.so.0"} <= of_libvirt
    assert shipped & of_libvirt == set()
    for pid in box.launcher_pids(uid):
        loaded = set(re.findall(r"/lib\S*/(lib[\w.+-]+)$", Path(f"/proc/{pid}/maps").read_text(), re.MULTILINE))
        names = [re.sub(r"\.so.*", "", name) for name in loaded]
        assert sorted(names) == sorted(set(names)), "two versions of one library in one process"
