"""Packs the tree behind the program that unpacks it: the layout is in bundle.c.

Run by packaging/build. The same tree gives the same bytes; `stamp` is the time that every unpacked file carries.
"""

from __future__ import annotations

import hashlib
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

MARK: Final = b"\nkvedge bundle 1"
# The number of threads changes the time, not the bytes. Level 15 would save 0.2 MB of the file for four times the work.
COMPRESS: Final = ["zstd", "-12", "-T2", "-q", "-c"]


def main(program: Path, tree: Path, output: Path, stamp: int) -> None:
    """Write the one file."""
    files = sorted(path for path in tree.rglob("*") if path.is_file())
    contents = {path: path.read_bytes() for path in files}
    lines = [
        f"{0o755 if path == tree / 'kvedge' else 0o644:o} {len(content)} "
        f"{hashlib.sha256(content).hexdigest()} {path.relative_to(tree)}\n"
        for path, content in contents.items()
    ]
    manifest = "".join(lines).encode()
    joined = b"".join(contents.values())
    payload = subprocess.run(COMPRESS, input=joined, capture_output=True, check=True).stdout
    numbers = struct.pack("<4Q", len(manifest), len(payload), len(joined), stamp)
    trailer = MARK + numbers + hashlib.sha256(manifest + payload).digest()
    output.write_bytes(program.read_bytes() + manifest + payload + trailer)
    output.chmod(0o755)


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]), int(sys.argv[4]))
