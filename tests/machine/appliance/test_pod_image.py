"""The archive of images for kvedge as Pods: made twice alike, read by other tools, and its program runs on the host's
/usr without any right.
"""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path

import pytest

import kvedge
from kvedge.resources.manifests.pods_manifest import PROGRAM, image_name
from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.storage.images.image_import import import_file
from kvedge.storage.images.image_store import ImageStore

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400)]

NAME = image_name(kvedge.__version__)
SCRIPT = Path(__file__).parents[3] / "packaging/image"
# As a kubelet has it done: the image read-only, the host's /usr on it, a directory that its Pod may write.
_AS_IN_A_POD = """
mkdir -p "$1/var/lib/kvedge"
mount --bind "$1" "$1"
mount -o remount,bind,ro "$1"
mount --rbind /usr "$1/usr"
mount -t proc proc "$1/proc"
mount -t tmpfs -o mode=1777 none "$1/var/lib/kvedge"
shift
exec "$@"
"""


@pytest.fixture(scope="module")
def archive(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(program, tmp_path_factory.mktemp("image"))


def make(program: Path, out: Path) -> Path:
    subprocess.run([str(SCRIPT), str(program), str(out)], check=True, capture_output=True)
    return out / f"{program.name}.images.tar"


def test_the_same_program_gives_the_same_bytes(archive: Path, program: Path, tmp_path: Path) -> None:
    assert make(program, tmp_path).read_bytes() == archive.read_bytes()


def test_other_tools_find_both_images_in_it(archive: Path) -> None:
    for name in (LAUNCHER_IMAGE, NAME):
        done = subprocess.run(
            ["skopeo", "inspect", f"oci-archive:{archive}:{name}"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["Architecture"] == {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def test_the_program_in_it_runs_without_rights_on_the_hosts_own_libraries(archive: Path, tmp_path: Path) -> None:
    images = {image.name: image for image in import_file(ImageStore(tmp_path / "store"), archive)}
    assert set(images) == {LAUNCHER_IMAGE, NAME}
    root = images[NAME].tree
    command = ["unshare", "--mount", "--pid", "--fork", "sh", "-euc", _AS_IN_A_POD, "sh", str(root)]
    command += ["chroot", "--userspec=65534:65534", str(root), PROGRAM, "version", "--client"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"Client Version: kvedge {kvedge.__version__}\n"), done.stderr
