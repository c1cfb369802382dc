"""The image that KubeVirt's tests run helpers from: bash, curl, tar, an `ncat` that reads, and busybox for the rest.

Called by the conformance run before the box starts. The program files are this machine's own: bash, curl and tar with
the libraries that they are linked with, and Debian's static busybox.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.conformance.guests import TAG
from tests.support.box import Box
from tests.support.small_images import directory, file, layer, link, oci_archive

# By where they are here, and in the image.
PROGRAMS: Final = {"/bin/bash": "bin/bash", "/usr/bin/curl": "bin/curl", "/bin/tar": "usr/bin/tar"}
_APPLETS: Final = (
    "awk",
    "cat",
    "chmod",
    "chown",
    "cp",
    "dd",
    "df",
    "du",
    "echo",
    "find",
    "grep",
    "gzip",
    "head",
    "id",
    "ls",
    "md5sum",
    "mkdir",
    "mv",
    "ping",
    "printf",
    "rm",
    "sed",
    "sh",
    "sleep",
    "sort",
    "stat",
    "sync",
    "tail",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "umount",
    "wc",
    "wget",
)
# What the tests ask of ncat: connect within three seconds, and tell what comes until the other side has had enough.
# bash asks the Pod's name servers, which a static busybox cannot.
_NCAT: Final = b"""#!/bin/bash
exec timeout 8 bash -c 'exec 3<>"/dev/tcp/$0/$1" && exec cat <&3' "$1" "$2"
"""
# The tests say that their helpers must not be root, and leave it to the image who they are.
_USER: Final = 1042


def job_image(prefix: str) -> str:
    """The image's name."""
    return f"{prefix}/vm-killer:{TAG}"


def import_job_image(box: Box, prefix: str) -> None:
    """Make the image, and bring it into the box's store."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "vm-killer.tar"
        write_job_image(archive, job_image(prefix))
        box.import_image(archive, job_image(prefix))


def write_job_image(path: Path, name: str, programs: Mapping[str, str] = PROGRAMS) -> None:
    """The archive of the image of this name, with `programs` by their place here and in the image.

    Raises:
        OSError: when bash, curl, tar or busybox is not here.
        subprocess.CalledProcessError: when the linker cannot tell what these need.
    """
    linked = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    libraries = libraries_of(linked)
    folders = sorted({str(parent).lstrip("/") for name in libraries for parent in Path(name).parents} - {""})
    entries = [directory(name) for name in sorted({"bin", "etc", "run", "usr", "usr/bin", "var", *folders})]
    entries += [directory("tmp", 0o1777), link("var/run", "/run")]
    entries += [file(name.lstrip("/"), Path(name).read_bytes(), 0o755) for name in libraries]
    entries += [file(name, Path(place).read_bytes(), 0o755) for place, name in programs.items()]
    entries.append(file("bin/busybox", Path("/bin/busybox").read_bytes(), 0o755))
    entries += [link(f"bin/{applet}", "busybox") for applet in _APPLETS if f"bin/{applet}" not in programs.values()]
    # Some specs name the place of GNU's, which alone knows its archives of sparse files; others look on the PATH.
    entries.append(link("bin/tar", "/usr/bin/tar"))
    entries.append(file("bin/ncat", _NCAT, 0o755))
    entries.append(file("etc/passwd", f"tester:x:{_USER}:{_USER}::/:/bin/sh\n".encode()))
    entries.append(file("etc/nsswitch.conf", b"hosts: files dns\n"))
    oci_archive(path, [layer(entries)], {"Env": ["PATH=/bin"], "User": str(_USER)}, name)


def libraries_of(linked: str) -> list[str]:
    """The files that `ldd` names, the program's own interpreter among them."""
    return sorted(set(re.findall(r"(?:=>\s+|^\s+)(/\S+)\s+\(0x", linked, re.MULTILINE)))
