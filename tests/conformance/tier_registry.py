"""A registry with the guests' images at an address that nodes and guests reach, for specs that import a disk from it.

Called by the conformance run once its server stands. It is Debian's docker-registry. Its authority is believed as any
operator's own is: it stands among this machine's local ones for the length of the run.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml

from tests.conformance.guests import GUESTS, REGISTRY_PORT, TAG, build_named_guest, image_prefix, write_disk_image
from tests.support.certificate_files import FileAuthority
from tests.support.waiting import wait_until

_LOCAL_AUTHORITIES: Final = Path("/usr/local/share/ca-certificates")


@contextlib.contextmanager
def tier_registry(folder: Path, host: str) -> Iterator[None]:
    """Serve the images at `host`; blobs, certificate and log are below `folder`."""
    with running_registry(folder, host, REGISTRY_PORT, [host]):
        for guest in GUESTS:
            _push(image_prefix(host), build_named_guest(guest), guest.images)
        yield


@contextlib.contextmanager
def running_registry(folder: Path, address: str, port: int, hosts: Sequence[str]) -> Iterator[Path]:
    """A registry without images, whose certificate names `hosts`; the file of its authority, which this machine
    believes meanwhile. It takes pushes at the address itself.
    """
    folder.mkdir()
    bound = f"{address}:{port}"
    # A run on a box and one on a cluster may go on at a time.
    believed = _LOCAL_AUTHORITIES / f"kvedge-conformance-{address}.crt"
    authority = FileAuthority(folder, "conformance")
    pair = authority.issue("registry", hosts=[address, *hosts])
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": bound, "tls": {"certificate": str(pair.cert), "key": str(pair.key)}},
    }
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    with (folder / "log").open("wb") as log:
        command = ["docker-registry", "serve", str(folder / "config.yml")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or _answers(bound, authority.ca), "the registry answers", 30)
        assert process.poll() is None, (folder / "log").read_text()
        _LOCAL_AUTHORITIES.mkdir(parents=True, exist_ok=True)
        believed.write_bytes(authority.ca.read_bytes())
        yield authority.ca
    finally:
        believed.unlink(missing_ok=True)
        process.terminate()
        process.wait(30)


def _push(prefix: str, disk: Path, images: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "image.tar"
        write_disk_image(archive, disk)
        for image in images:
            push_archive(archive, f"{prefix}/{image}:{TAG}")


def push_archive(archive: Path, name: str) -> None:
    """Push an OCI archive's image into a registry of this machine's."""
    command = ["skopeo", "copy", "-q", "--insecure-policy", "--dest-tls-verify=false"]
    subprocess.run([*command, f"oci-archive:{archive}", f"docker://{name}"], check=True)


def _answers(address: str, authority: Path) -> bool:
    command = ["curl", "-sf", "-o", "/dev/null", "--noproxy", "*", "--max-time", "5", "--cacert", str(authority)]
    return subprocess.run([*command, f"https://{address}/v2/"], check=False).returncode == 0
