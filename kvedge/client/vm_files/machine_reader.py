"""Which kind of file a VM comes in, and its reader.

Called by `kvedge import`. Reads the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kvedge.client.vm_files.archive_errors import NotTrusted, UnknownFile
from kvedge.client.vm_files.archive_reader import Archive, Show, is_archive
from kvedge.client.vm_files.archive_signature import fingerprint
from kvedge.client.vm_files.libvirt_reader import is_domain, read_domain
from kvedge.client.vm_files.machine_file import MachineFile, machine_of
from kvedge.client.vm_files.ova_reader import is_tar, read_ova

_HEAD: Final = 1024


@contextmanager
def open_machine(path: Path, trusted: bytes | None, show: Show, tell: Callable[[str], None]) -> Iterator[MachineFile]:
    """The VM of a file that was checked, while it is entered.

    Raises:
        ClientError: with what is wrong with the file.
        OSError: of the file.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if is_archive(head):
        with Archive.open(path, trusted, show) as archive:
            if archive.signed_by is not None and trusted is None:
                tell(f"signed by {fingerprint(archive.signed_by)}, which is not checked without --verify-key")
            yield machine_of(archive)
        return
    if trusted is not None:
        raise NotTrusted(f"{path}: is no archive of kvedge, and has no signature: leave --verify-key out")
    if is_tar(head):
        yield read_ova(path)
    elif is_domain(head):
        yield read_domain(path)
    else:
        raise UnknownFile(
            f"{path}: is no VM: `kvedge import` takes what `kvedge export` has written, an appliance (.ova), or what "
            "`virsh dumpxml` prints; an image alone is taken by `kvedge image-upload`"
        )
