"""Image archives made to take as much memory and time as they can; each grows with `n`.

For the tests of the worker that imports them. Headers are made here, as no honest tool writes these.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import struct
import zlib
from collections.abc import Callable
from typing import Any

Hostile = Callable[[int], bytes]


def header(name: bytes, kind: bytes = b"0", size: int = 0, *, link: bytes = b"", uid: bytes = b"0") -> bytes:
    """One ustar header."""
    fields = struct.pack(
        "100s8s8s8s12s12s8sc100s6s249x",
        name,
        b"755",
        uid,
        b"0",
        b"%o" % size if size < 1 << 33 else b"\x80" + size.to_bytes(11, "big"),
        b"0",
        b" " * 8,
        kind,
        link,
        b"ustar\0",
    )
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]


def special(kind: bytes, data: bytes) -> bytes:
    """A PAX or GNU header with its data."""
    return header(b"x", kind, len(data)) + data + bytes(-len(data) % 512)


def record(key: bytes, value: bytes) -> bytes:
    """One PAX record."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest) + 1
    while length != len(b"%d" % length) + len(rest):
        length = len(b"%d" % length) + len(rest)
    return b"%d" % length + rest


_FILE = header(b"f")
_END = bytes(1024)


def _pax(kind: bytes, n: int) -> bytes:
    return b"".join(special(kind, record(b"k%d" % index, b"v" * 60_000)) for index in range(n)) + _FILE


def _tiny_records(n: int) -> bytes:
    return special(b"x", b"6 a=b\n" * 170_000) * n + _FILE


def _long_names(n: int) -> bytes:
    return special(b"L", b"a" * 4000) * n + _FILE


def _opaque(n: int) -> bytes:
    entries = [header(b"d/%d" % index) for index in range(n)]
    return b"".join(entries) + header(b"d/.wh..wh..opq") * n


def _opaque_everywhere(n: int) -> bytes:
    made = b"".join(header(b"d/%d/" % index, b"5") + header(b"d/%d/f" % index) for index in range(n))
    return made + b"".join(header(b"d/%d/.wh..wh..opq" % index) + header(b".wh..wh..opq") for index in range(n))


def _whiteouts(n: int) -> bytes:
    return b"".join(header(b"d/%d" % index) + header(b"d/.wh.%d" % index) for index in range(n))


def _links_to_nowhere(n: int) -> bytes:
    """Each pair has a directory made for every part of a long target."""
    made = []
    for index in range(n):
        target = b"/".join([b"%d" % index] + [b"d"] * 40)
        made += [header(b"l%d" % index, b"2", link=target), header(b"l%d/f" % index)]
    return b"".join(made)


def _links_beyond_depth(n: int) -> bytes:
    """Links lead ever deeper, while every path is short."""
    made, place = [], b""
    for index in range(n):
        made += [header(place + b"l", b"2", link=b"/".join([b"d"] * 40)), header(place + b"l/f%d" % index)]
        place += b"l/"
    return b"".join(made)


def _links_in_circles(n: int) -> bytes:
    chain = [header(b"c%d" % index, b"2", link=b"c%d" % (index + 1)) for index in range(n)]
    return b"".join(chain) + header(b"c0/f")


def _hard_links(n: int) -> bytes:
    return _FILE + b"".join(header(b"h%d" % index, b"1", link=b"f") for index in range(n))


def _deep_paths(n: int) -> bytes:
    place = b"/".join([b"d"] * 45)
    return b"".join(header(place + b"/%d" % index) for index in range(n))


def _empty_files(n: int) -> bytes:
    return b"".join(header(b"%d/%d" % (index % 100, index)) for index in range(n))


def _one(entry: bytes) -> Hostile:
    return lambda n: entry + _FILE * n


LAYERS: dict[str, Hostile] = {
    "global PAX headers": lambda n: _pax(b"g", 1200 * n),
    "PAX headers before one entry": lambda n: _pax(b"x", 1200 * n),
    "PAX headers of tiny records": lambda n: _tiny_records(2 * n),
    "GNU names without an entry": lambda n: _long_names(4000 * n),
    "opaque whiteouts times entries": lambda n: _opaque(1500 * n),
    "opaque whiteouts of everything": lambda n: _opaque_everywhere(1000 * n),
    "a whiteout for each entry": lambda n: _whiteouts(1500 * n),
    "directories that links have made": lambda n: _links_to_nowhere(60 * n),
    "links that lead ever deeper": lambda n: _links_beyond_depth(10 * n),
    "links in circles": lambda n: _links_in_circles(1500 * n),
    "hard links to one file": lambda n: _hard_links(1500 * n),
    "deep paths": lambda n: _deep_paths(1500 * n),
    "empty files": lambda n: _empty_files(1500 * n),
    "a huge user": _one(special(b"x", record(b"uid", b"1099511627776")) + header(b"u")),
    "a huge user of a link": _one(special(b"x", record(b"uid", b"1099511627776")) + header(b"u", b"2", link=b"f")),
    "a huge user of a directory": _one(special(b"x", record(b"gid", b"9" * 19)) + header(b"u", b"5")),
    "a user with thousands of digits": _one(special(b"x", record(b"uid", b"9" * 4000)) + header(b"u")),
    "a huge time": _one(special(b"x", record(b"mtime", b"9" * 19)) + header(b"u")),
    "a size of exabytes": _one(header(b"u", size=1 << 62)),
    "a name with a zero byte": _one(special(b"x", record(b"path", b"a\0b")) + header(b"u")),
    "a name of a megabyte": _one(special(b"x", record(b"path", b"a" * 1_000_000)) + header(b"u")),
    "a link to nothing": _one(header(b"u", b"2")),
    "a link longer than a path": _one(special(b"x", record(b"linkpath", b"a" * 4096)) + header(b"u", b"2")),
    "a hard link behind a circle": _one(
        header(b"a", b"2", link=b"b") + header(b"b", b"2", link=b"a") + header(b"u", b"1", link=b"a/f")
    ),
}


def as_archive(content: bytes, packed: bytes | None = None) -> bytes:
    """An OCI archive with one layer, as it is or packed in some way."""
    config = json.dumps({"os": "linux", "rootfs": {"type": "layers", "diff_ids": [_digest(content)]}}).encode()
    return layout(config, [content if packed is None else packed])


def layout(config: bytes, layers: list[bytes], /, **changes: Any) -> bytes:
    """An OCI archive; `changes` go into its manifest."""
    manifest = {
        "schemaVersion": 2,
        "config": {"digest": _digest(config), "size": len(config)},
        "layers": [{"digest": _digest(item), "size": len(item)} for item in layers],
    } | changes
    raw = json.dumps(manifest).encode()
    index = json.dumps({"schemaVersion": 2, "manifests": [{"digest": _digest(raw), "size": len(raw)}]}).encode()
    return _files({"index.json": index} | {_blob(item): item for item in (config, raw, *layers)})


def _files(contents: dict[str, bytes]) -> bytes:
    made = []
    for name, data in contents.items():
        made.append(header(name.encode(), size=len(data)) + data + bytes(-len(data) % 512))
    return b"".join(made) + _END


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _blob(data: bytes) -> str:
    return f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"


def _zeros(n: int) -> bytes:
    size = n * (32 << 20)
    return header(b"f", size=size) + bytes(size) + _END


def _xz_with_dictionary(n: int) -> bytes:
    """A block header that asks for a dictionary of 1 GiB; its checksum is right."""
    made = bytearray(lzma.compress(_zeros(n), preset=0))
    made[16] = 36
    made[20:24] = struct.pack("<I", zlib.crc32(made[12:20]))
    return bytes(made)


def _zstd_with_window(n: int, exponent: int) -> bytes:
    """A frame of blocks of one byte, repeated, with a window of 2^exponent bytes."""
    block = struct.pack("<I", (1 << 1) | ((128 << 10) << 3))[:3] + b"\0"
    last = struct.pack("<I", 1 | (1 << 1) | ((128 << 10) << 3))[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd" + bytes([0, (exponent - 10) << 3]) + block * (1024 * n) + last


PACKED: dict[str, Hostile] = {
    "an xz dictionary of a gigabyte": lambda n: as_archive(_zeros(n), _xz_with_dictionary(n)),
    "xz streams without end": lambda n: as_archive(b"", lzma.compress(b"") * (20_000 * n)),
    "gzip members without end": lambda n: as_archive(b"", gzip.compress(b"") * (20_000 * n)),
    "a zstd window of two gigabytes": lambda n: as_archive(b"", _zstd_with_window(n, 31)),
    "a zstd window of 128 megabytes": lambda n: as_archive(b"", _zstd_with_window(n, 27)),
    "a gzip bomb": lambda n: as_archive(_zeros(n), gzip.compress(_zeros(n))),
    "a bzip2 bomb": lambda n: as_archive(_zeros(n), bz2.compress(_zeros(n))),
    "an xz bomb": lambda n: as_archive(_zeros(n), lzma.compress(_zeros(n), preset=0)),
}


def _many_members(n: int) -> bytes:
    return b"".join(header(b"m%d" % index) for index in range(20_000 * n)) + _END


def _many_images(n: int) -> bytes:
    listed = [{"Config": "c", "Layers": []}] * (20_000 * n)
    return _files({"manifest.json": json.dumps(listed).encode(), "c": b'{"rootfs": {"diff_ids": []}}'})


def _indexes_of_indexes(depth: int, names: int) -> bytes:
    """Each index names the one below it again and again, down to one image."""
    config = b'{"rootfs": {"diff_ids": []}}'
    document = {"schemaVersion": 2, "config": {"digest": _digest(config), "size": len(config)}, "layers": []}
    below = json.dumps(document).encode()
    contents = {_blob(config): config}
    for _ in range(depth):
        contents[_blob(below)] = below
        entries = [
            {"digest": _digest(below), "annotations": {"org.opencontainers.image.ref.name": f"a/{index}:1"}}
            for index in range(names)
        ]
        below = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    return _files(contents | {"index.json": below})


def _nested_json(n: int) -> bytes:
    return _files({"manifest.json": b"[" * (1_000_000 * n), "c": b""})


def _many_lists(n: int) -> bytes:
    config = b'{"rootfs": {"diff_ids": [%s[]]}}' % (b"[]," * (300_000 * n))
    return layout(config, [])


def _many_layers(n: int) -> bytes:
    config = json.dumps({"rootfs": {"diff_ids": [_digest(b"")] * (10_000 * n)}}).encode()
    return layout(config, [b""] * (10_000 * n))


def _many_platforms(n: int) -> bytes:
    entries = [{"platform": {"os": "linux", "architecture": f"a{index}"}} for index in range(10_000 * n)]
    return _files({"index.json": json.dumps({"manifests": entries}).encode()})


def _digest_row(digest: str) -> Hostile:
    config = json.dumps({"rootfs": {"diff_ids": [_digest(b"")]}}).encode()
    return lambda n: layout(config, [b""], layers=[{"digest": digest, "size": 1}] * n)


def _diff_id_row(digest: str) -> Hostile:
    return lambda n: layout(json.dumps({"rootfs": {"diff_ids": [digest] * n}}).encode(), [b""] * n)


def _size_row(size: int) -> Hostile:
    config = json.dumps({"rootfs": {"diff_ids": [_digest(b"")]}}).encode()
    return lambda n: layout(config, [b""], layers=[{"digest": _digest(b""), "size": size}] * n)


BAD_DIGESTS: dict[str, str] = {
    "climbing out": "sha256:" + "../" * 21 + "x",
    "in capitals": "sha256:" + "A" * 64,
    "with a zero byte": "sha256:" + "a" * 63 + "\0",
    "with a line's end": "sha256:" + "a" * 64 + "\n",
    "too short": "sha256:" + "a" * 63,
    "too long": "sha256:" + "a" * 65,
    "of another algorithm": "sha512:" + "a" * 64,
    "with other scripts' digits": "sha256:" + "\u0661" * 64,
    "empty": "",
}

DOCUMENTS: dict[str, Hostile] = {
    "an archive of many files": _many_members,
    "a list of many images": _many_images,
    "indexes of indexes": lambda n: _indexes_of_indexes(4 * n, 100),
    "indexes of too many indexes": lambda n: _indexes_of_indexes(10 * n, 2),
    "a deeply nested document": _nested_json,
    "a document of many lists": _many_lists,
    "many layers": _many_layers,
    "many platforms": _many_platforms,
    "a size of a thousand digits": _size_row(10**1000),
    "a size beyond int64": _size_row(1 << 63),
    **{f"a layer's digest {name}": _digest_row(digest) for name, digest in BAD_DIGESTS.items()},
    **{f"a diff id {name}": _diff_id_row(digest) for name, digest in BAD_DIGESTS.items()},
}

# What only a strange but honest tool writes is taken; everything else has to be refused.
TAKEN = frozenset(
    {
        "global PAX headers",
        "PAX headers before one entry",
        "PAX headers of tiny records",
        "opaque whiteouts times entries",
        "opaque whiteouts of everything",
        "a whiteout for each entry",
        "directories that links have made",
        "hard links to one file",
        "deep paths",
        "empty files",
        "a huge time",
        "xz streams without end",
        "gzip members without end",
        "a gzip bomb",
        "a bzip2 bomb",
        "an xz bomb",
    }
)

ARCHIVES: dict[str, Hostile] = {
    **{name: (lambda n, make=make: as_archive(make(n) + _END)) for name, make in LAYERS.items()},  # type: ignore[misc]
    **PACKED,
    **DOCUMENTS,
}


def honest_archive() -> bytes:
    """What the others are compared with."""
    return as_archive(_FILE + _END)
