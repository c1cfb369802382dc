"""A registry with the guests' images at the node bridge's address, for specs that import a disk from it.

Called by the conformance run once the box stands. It is Debian's docker-registry. Its authority is believed as any
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

from tests.conformance.guests import GUESTS, PREFIX, REGISTRY, TAG, build_named_guest
from tests.support.certificate_files import FileAuthority
from tests.support.small_images import directory, file, layer, oci_archive
from tests.support.waiting import wait_until

_AUTHORITY: Final = Path("/usr/local/share/ca-certificates/kvedge-conformance.crt")


@contextlib.contextmanager
def tier_registry(folder: Path) -> Iterator[None]:
    """Serve the images; blobs, certificate and log are below `folder`."""
    folder.mkdir()
    host, _, _ = REGISTRY.partition(":")
    authority = FileAuthority(folder, "conformance")
    pair = authority.issue("registry", hosts=[host])
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": REGISTRY, "tls": {"certificate": str(pair.cert), "key": str(pair.key)}},
    }
    (folder / "config.yml").write_text(yaml.safe_dump(config))
    with (folder / "log").open("wb") as log:
        command = ["docker-registry", "serve", str(folder / "config.yml")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: process.poll() is not None or _answers(authority.ca), "the registry answers", 30)
        assert process.poll() is None, (folder / "log").read_text()
        for guest in GUESTS:
            _push(build_named_guest(guest), guest.images)
        _AUTHORITY.parent.mkdir(parents=True, exist_ok=True)
        _AUTHORITY.write_bytes(authority.ca.read_bytes())
        yield
    finally:
        _AUTHORITY.unlink(missing_ok=True)
        process.terminate()
        process.wait(30)


def _push(disk: Path, images: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "image.tar"
        content = layer([directory("disk"), file("disk/disk.qcow2", disk.read_bytes())])
        oci_archive(archive, [content], {}, zipped=False)
        for image in images:
            command = ["skopeo", "copy", "-q", "--insecure-policy", "--dest-tls-verify=false"]
            command += [f"oci-archive:{archive}", f"docker://{PREFIX}/{image}:{TAG}"]
            subprocess.run(command, check=True)


def _answers(authority: Path) -> bool:
    command = ["curl", "-sf", "-o", "/dev/null", "--noproxy", "*", "--max-time", "5", "--cacert", str(authority)]
    return subprocess.run([*command, f"https://{REGISTRY}/v2/"], check=False).returncode == 0
