"""The built program with some of its files changed: another version to upgrade to, or a broken one.

Knows the one file's layout (packaging/onefile/bundle.c): program, manifest, payload, trailer.
"""

from __future__ import annotations

import hashlib
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

_MARK = b"\nkvedge bundle 1"
_NUMBERS = struct.Struct("<4Q")


def alter_program(built: Path, target: Path, changes: Mapping[str, tuple[bytes, bytes]]) -> Path:
    """Write `built` to `target` with, in each file of `changes`, the first text replaced by the second."""
    data = built.read_bytes()
    trailer = len(data) - len(_MARK) - _NUMBERS.size - hashlib.sha256().digest_size
    assert data[trailer:].startswith(_MARK)
    manifest_size, payload_size, _, stamp = _NUMBERS.unpack_from(data, trailer + len(_MARK))
    payload_at = trailer - payload_size
    manifest = data[payload_at - manifest_size : payload_at].decode()
    program = data[: payload_at - manifest_size]
    joined = subprocess.run(["zstd", "-dqc"], input=data[payload_at:trailer], capture_output=True, check=True).stdout
    lines, contents, at = [], [], 0
    for line in manifest.splitlines():
        mode, size, _, name = line.split(" ", 3)
        content = joined[at : at + int(size)]
        at += int(size)
        if name in changes:
            old, new = changes[name]
            assert old in content, f"{name} does not hold {old!r}"
            content = content.replace(old, new, 1)
        lines.append(f"{mode} {len(content)} {hashlib.sha256(content).hexdigest()} {name}\n")
        contents.append(content)
    made = "".join(lines).encode()
    packed = subprocess.run(["zstd", "-1", "-qc"], input=b"".join(contents), capture_output=True, check=True).stdout
    numbers = _NUMBERS.pack(len(made), len(packed), sum(map(len, contents)), stamp)
    digest = hashlib.sha256(made + packed).digest()
    target.write_bytes(program + made + packed + _MARK + numbers + digest)
    target.chmod(0o755)
    return target
