"""The Pod out of which KubeVirt's upload specs read a disk: that of their own test infrastructure has the same name.

Called by the conformance run. Its image holds Debian's static busybox and the disk of the small guest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kvedge.kube.kube_client import KubeClient
from tests.conformance.guests import GUESTS, TAG, build_named_guest
from tests.support.small_images import directory, file, layer, link, oci_archive

_NAME: Final = "disks-images-provider"
# The path and the container's name are the specs' own.
_DISK: Final = "images/alpine/disk.img"
_CONTAINER: Final = "target"


def provider_image(prefix: str) -> str:
    """The image's name."""
    return f"{prefix}/{_NAME}:{TAG}"


def write_provider_image(path: Path, name: str) -> None:
    """The archive of the image of this name.

    Raises:
        OSError: when busybox is not here.
        RuntimeError: when the guest cannot be made.
    """
    disk = build_named_guest(GUESTS[0]).read_bytes()
    entries = [directory("bin"), directory("images"), directory("images/alpine"), file(_DISK, disk)]
    entries.append(file("bin/busybox", Path("/bin/busybox").read_bytes(), 0o755))
    entries += [link(f"bin/{applet}", "busybox") for applet in ("cat", "sleep")]
    oci_archive(path, [layer(entries)], {"Env": ["PATH=/bin"], "Cmd": ["/bin/sleep", "2147483647"]}, name, zipped=False)


def start_provider(client: KubeClient, namespace: str, prefix: str) -> None:
    """Make the Pod."""
    client.request("POST", f"/api/v1/namespaces/{namespace}/pods", provider_pod(namespace, prefix))


def provider_pod(namespace: str, prefix: str) -> dict[str, Any]:
    """The Pod, as the specs look for it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": _NAME, "namespace": namespace, "labels": {"kubevirt.io": _NAME}},
        # A box has no other.
        "spec": {"restartPolicy": "Never", "containers": [{"name": _CONTAINER, "image": provider_image(prefix)}]},
    }
