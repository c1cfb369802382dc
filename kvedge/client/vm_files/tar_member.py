"""Members of an archive as POSIX tar has them: a header of one block, content, zeros to the end of the block.

Called by the archive's writer and reader. Every tar reads what is made here. The reader takes headers of no other form:
an owner, a link, a time or a path that kvedge never writes is damage, so that each bit of a header counts. Touches
nothing.
"""

from __future__ import annotations

import tarfile
from typing import Final

from kvedge.client.vm_files.archive_errors import DamagedFile

BLOCK: Final = 512
# Two empty blocks end a tar.
END: Final = bytes(2 * BLOCK)


def make_header(name: str, size: int) -> bytes:
    """The block before a member's content."""
    member = tarfile.TarInfo(name)
    member.size = size
    return member.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")


def read_header(block: bytes) -> tuple[str, int]:
    """The name and the size of a member.

    Raises:
        DamagedFile: for a header that :func:`make_header` does not make.
    """
    try:
        member = tarfile.TarInfo.frombuf(block, "ascii", "strict")
        if member.size >= 0 and make_header(member.name, member.size) == block:
            return member.name, member.size
    except (tarfile.HeaderError, ValueError):
        pass
    raise DamagedFile("the archive is damaged: a member's header is not as kvedge writes it; copy the file again")


def padding(size: int) -> int:
    """How many zeros follow content of that size.

    >>> padding(0), padding(1), padding(512)
    (0, 511, 0)
    """
    return -size % BLOCK
