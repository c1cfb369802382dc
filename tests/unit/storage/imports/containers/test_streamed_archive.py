# Tests: kvedge/storage/imports/containers/layer_disk.py
"""Archives of container disks from a server: what is then in the claim, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.types.import_job import HttpSource, ImportJob, ImportOutcome
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import
from kvedge.storage.imports.sources.web_source import SourceFiles
from tests.support.image_server import played_server
from tests.support.small_images import digest, directory, file, layer, link, oci_archive

MIB = 1 << 20
DISK = b"the first sector".ljust(512, b".") + bytes(2 * MIB) + os.urandom(300_032)
ENVIRONMENT = {"Env": ["INSTANCETYPE_KUBEVIRT_IO_DEFAULT_PREFERENCE=fedora"]}


def archive(tmp_path: Path, *layers: bytes, zipped: bool = True, config: dict[str, Any] | None = None) -> bytes:
    path = tmp_path / "made.tar"
    oci_archive(path, layers, config or {}, zipped=zipped)
    return path.read_bytes()


def container_disk(data: bytes = DISK, name: str = "disk/image.img") -> bytes:
    return layer([file(name, data)])


def members(data: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as opened:
        return [(item, content.read() if (content := opened.extractfile(item)) else b"") for item in opened]


def again(data: bytes, change: Callable[[list[tuple[tarfile.TarInfo, bytes]]], Any]) -> bytes:
    """The archive with its members changed."""
    found = members(data)
    return layer(change(found) or found)


def come_in(tmp_path: Path, data: bytes, size: int = 8 * MIB, *, is_archive: bool = False) -> ImportOutcome:
    (tmp_path / "claim").mkdir(exist_ok=True)
    files = SourceFiles(tmp_path / "no", tmp_path / "no", tmp_path / "no")
    places = ImportPlaces(directory=tmp_path / "claim", files=files)
    with played_server(data) as server:
        job = ImportJob(name="d", size=size, http=HttpSource(url=server.url, is_archive=is_archive))
        return run_import(job, places, ImportProgress(), ImportDoor(own_host=True))


def disk_of(tmp_path: Path) -> bytes:
    assert os.listdir(tmp_path / "claim") == ["disk.img"]
    return (tmp_path / "claim/disk.img").read_bytes()[: len(DISK)]


@pytest.mark.parametrize("zipped", [True, False], ids=["a packed layer", "a plain layer"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress], ids=["tar", "gz", "xz", "bz2"])
def test_the_disk_of_an_archive_is_the_claim_s(tmp_path: Path, pack: Callable[[bytes], bytes], *, zipped: bool) -> None:
    outcome = come_in(tmp_path, pack(archive(tmp_path, container_disk(), zipped=zipped, config=ENVIRONMENT)))
    assert disk_of(tmp_path) == DISK
    assert outcome.labels == {"instancetype.kubevirt.io/default-preference": "fedora"}


def test_the_documents_may_come_before_the_layers_or_after_them(tmp_path: Path) -> None:
    made = archive(tmp_path, container_disk())
    come_in(tmp_path, again(made, lambda found: found[::-1]), is_archive=True)
    assert disk_of(tmp_path) == DISK


def test_the_first_layer_of_the_image_that_has_a_disk_has_the_disk_whatever_comes_first(tmp_path: Path) -> None:
    other = container_disk(b"another one".ljust(4096, b"."))
    made = archive(tmp_path, layer([file("etc/motd", b"hello")]), container_disk(), other)

    def other_first(found: list[tuple[tarfile.TarInfo, bytes]]) -> list[tuple[tarfile.TarInfo, bytes]]:
        return sorted(found, key=lambda item: item[1] != gzip.compress(other, mtime=0))

    come_in(tmp_path, again(made, other_first), is_archive=True)
    assert disk_of(tmp_path) == DISK


def test_a_disk_in_the_archive_may_be_packed_itself(tmp_path: Path) -> None:
    come_in(tmp_path, archive(tmp_path, container_disk(gzip.compress(DISK), "disk/image.img.gz")))
    assert disk_of(tmp_path) == DISK


def test_an_archive_of_docker_s_own_kind_has_its_layer_by_a_link(tmp_path: Path) -> None:
    plain = container_disk()
    config = json.dumps({"rootfs": {"type": "layers", "diff_ids": [digest(plain)]}, "config": {}}).encode()
    listed = json.dumps([{"Config": "c.json", "RepoTags": ["a:b"], "Layers": ["one/layer.tar"]}]).encode()
    name = hashlib.sha256(plain).hexdigest()
    entries = [file(f"{name}.tar", plain), link("one/layer.tar", f"../{name}.tar"), file("c.json", config)]
    come_in(tmp_path, layer([*entries, file("manifest.json", listed)]))
    assert disk_of(tmp_path) == DISK


def _damage(found: list[tuple[tarfile.TarInfo, bytes]]) -> list[tuple[tarfile.TarInfo, bytes]]:
    packed = gzip.compress(container_disk(DISK[:-1] + b"!"), mtime=0)
    return [file(info.name, packed if len(data) > 100_000 else data) for info, data in found]


def _without(name: str) -> Callable[[list[tuple[tarfile.TarInfo, bytes]]], Any]:
    return lambda found: [item for item in found if item[0].name != name]


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda path: again(archive(path, container_disk()), _damage), "is not what its digest says"),
        (lambda path: again(archive(path, container_disk()), _without("index.json")), "holds no image"),
        (lambda path: archive(path, container_disk())[:-200_000], "cut short|in the middle|data end"),
        (lambda path: archive(path, layer([file("etc/motd", b"hello")])), "Failed to find VM disk image file"),
        (lambda path: archive(path, layer([link("disk/a", "/etc/passwd")])), "is no regular file"),
        (lambda path: archive(path, layer([file("disk/a", DISK), file("disk/b", DISK)])), "more than one file"),
        (lambda path: archive(path, container_disk(bytes(9 * MIB))), "too small to contain image"),
        (lambda path: archive(path, layer([file("big", bytes(90 * MIB)), file("disk/a", DISK)])), "sends more than"),
        (lambda path: layer([file(f"blobs/sha256/{n}", b"") for n in range(20_001)]), "more files than"),
    ],
    ids=[
        "another layer than its digest's",
        "no index",
        "cut short",
        "no disk",
        "a link for a disk",
        "two disks",
        "a larger disk",
        "a layer that unpacks to too much",
        "members without end",
    ],
)
def test_what_is_wrong_with_an_archive_is_told_and_nothing_is_left(
    tmp_path: Path, make: Callable[[Path], bytes], word: str
) -> None:
    with pytest.raises(ImportFailure, match=word):
        come_in(tmp_path, make(tmp_path))
    assert os.listdir(tmp_path / "claim") == []


def test_an_archive_of_several_images_is_refused_with_their_names(tmp_path: Path) -> None:
    made = archive(tmp_path, container_disk())

    def twice(found: list[tuple[tarfile.TarInfo, bytes]]) -> list[tuple[tarfile.TarInfo, bytes]]:
        index = json.loads(next(data for info, data in found if info.name == "index.json"))
        index["manifests"] = [
            {**index["manifests"][0], "annotations": {"org.opencontainers.image.ref.name": name}}
            for name in ("site/one:1", "site/two:1")
        ]
        kept = [item for item in found if item[0].name != "index.json"]
        return [*kept, file("index.json", json.dumps(index).encode())]

    with pytest.raises(ImportFailure, match=r"several images \(site/one:1, site/two:1\); save one alone"):
        come_in(tmp_path, again(made, twice))


def test_documents_are_kept_within_bounds(tmp_path: Path) -> None:
    many = [file(f"{number}.json", b"{".ljust(4 * MIB)) for number in range(4)]
    with pytest.raises(ImportFailure, match="holds no image"):
        come_in(tmp_path, layer([*many, *members(archive(tmp_path, container_disk()))]), is_archive=True)


def test_where_an_archive_is_named_nothing_else_is_taken(tmp_path: Path) -> None:
    with pytest.raises(ImportFailure, match="oci-archive: needs one of an image"):
        come_in(tmp_path, DISK, is_archive=True)


def ordered(found: list[tuple[tarfile.TarInfo, bytes]], *first: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
    """The members with those of these contents first."""
    return sorted(found, key=lambda item: first.index(item[1]) if item[1] in first else len(first))


def packed(data: bytes) -> bytes:
    """As :func:`archive` packs it."""
    return gzip.compress(data, mtime=0)


OTHER = container_disk(b"another one".ljust(4096, b"."))
BROKEN = packed(OTHER)[:-40]


def with_blob(made: bytes, data: bytes) -> bytes:
    """The archive with one more blob, as its first member."""
    name = f"blobs/sha256/{hashlib.sha256(data).hexdigest()}"
    return again(made, lambda found: [file(name, data), *found])


def test_a_broken_layer_before_the_one_with_a_disk_is_told_and_none_is_taken_in_its_place(tmp_path: Path) -> None:
    made = archive(tmp_path, OTHER, container_disk())

    def broken(found: list[tuple[tarfile.TarInfo, bytes]]) -> list[tuple[tarfile.TarInfo, bytes]]:
        return [file(info.name, b"\x1f\x8bno gzip" if data == packed(OTHER) else data) for info, data in found]

    with pytest.raises(ImportFailure, match=r"compressed data are broken.*get it again"):
        come_in(tmp_path, again(made, broken))
    with pytest.raises(ImportFailure, match=r"compressed data are broken.*get it again"):
        come_in(tmp_path, again(again(made, broken), lambda found: ordered(found, packed(container_disk()))))
    assert os.listdir(tmp_path / "claim") == []


@pytest.mark.parametrize("missing", [0, 1], ids=["before the disk's", "the disk's"])
def test_a_layer_that_an_archive_lacks_is_named(tmp_path: Path, missing: int) -> None:
    layers = [layer([file("etc/motd", b"hello")]), container_disk()]
    name = f"blobs/sha256/{hashlib.sha256(packed(layers[missing])).hexdigest()}"
    with pytest.raises(ImportFailure, match=f"the archive lacks {name}; it may be a broken download"):
        come_in(tmp_path, again(archive(tmp_path, *layers), _without(name)))
    assert os.listdir(tmp_path / "claim") == []


@pytest.mark.parametrize(
    "blob",
    [
        b"\x1f\x8bno gzip",
        BROKEN,
        packed(layer([link("disk/a", "/etc/passwd")])),
        packed(container_disk(bytes(9 * MIB))),
        packed(layer([file("disk/a", b"1"), file("disk/b", b"2")])),
        OTHER[:1024],
        b"a signature",
    ],
    ids=[
        "no gzip",
        "cut gzip",
        "a link for a disk",
        "a larger disk",
        "two disks",
        "a disk that is cut short",
        "no tar",
    ],
)
@pytest.mark.parametrize("at_end", [False, True], ids=["first", "last"])
def test_what_is_wrong_with_a_blob_that_is_not_the_image_s_does_not_matter(
    tmp_path: Path, blob: bytes, *, at_end: bool
) -> None:
    made = with_blob(archive(tmp_path, container_disk()), blob)
    come_in(tmp_path, again(made, lambda found: [*found[1:], found[0]]) if at_end else made, is_archive=True)
    assert disk_of(tmp_path) == DISK


def test_the_layers_of_an_archive_have_one_bound_together(tmp_path: Path) -> None:
    fillers = [layer([file(f"big{number}", bytes(50 * MIB))]) for number in range(2)]
    with pytest.raises(ImportFailure, match="sends more than"):
        come_in(tmp_path, archive(tmp_path, *fillers, container_disk()))
    come_in(tmp_path, archive(tmp_path, fillers[0], container_disk()))
    assert disk_of(tmp_path) == DISK


def test_a_blob_that_unpacks_to_too_much_does_not_matter_behind_the_image_s_disk(tmp_path: Path) -> None:
    blob = packed(layer([file("big", bytes(81 * MIB))]))
    made = with_blob(archive(tmp_path, container_disk()), blob)
    come_in(tmp_path, again(made, lambda found: [*found[1:], found[0]]))
    assert disk_of(tmp_path) == DISK


def test_what_lies_behind_the_end_of_a_layer_is_not_unpacked(tmp_path: Path) -> None:
    come_in(tmp_path, archive(tmp_path, layer([file("etc/motd", b"hello")]) + bytes(81 * MIB), container_disk()))
    assert disk_of(tmp_path) == DISK


def crane_archive(*layers: bytes, name: str = "") -> bytes:
    """As `crane` and `kaniko` save images; `name` stands for the digests in the layers' names."""
    config = json.dumps({"rootfs": {"type": "layers", "diff_ids": [digest(item) for item in layers]}}).encode()
    names = [f"{name or hashlib.sha256(packed(item)).hexdigest()}.tar.gz" for item in layers]
    listed = json.dumps([{"Config": digest(config), "RepoTags": ["a:b"], "Layers": names}]).encode()
    stored = [file(key, packed(item)) for key, item in zip(names, layers, strict=True)]
    return layer([file(digest(config), config), *stored, file("manifest.json", listed)])


def test_an_archive_of_crane_is_known_by_its_config_and_its_packed_layer_by_its_name(tmp_path: Path) -> None:
    come_in(tmp_path, crane_archive(layer([file("etc/motd", b"hello")]), container_disk()))
    assert disk_of(tmp_path) == DISK


@pytest.mark.parametrize(
    ("name", "words"), [("layer", "nothing tells its digest; save the image"), ("0" * 64, "is not what its digest")]
)
def test_a_packed_layer_that_nothing_tells_the_digest_of_is_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ImportFailure, match=words):
        come_in(tmp_path, crane_archive(container_disk(), name=name))
    assert os.listdir(tmp_path / "claim") == []


def test_a_layout_that_was_packed_with_its_directory_is_an_archive(tmp_path: Path) -> None:
    def below(found: list[tuple[tarfile.TarInfo, bytes]]) -> list[tuple[tarfile.TarInfo, bytes]]:
        named = [file(f"./{info.name}", data) for info, data in found]
        return [directory("./"), directory("./blobs"), directory("./blobs/sha256"), *named]

    come_in(tmp_path, again(archive(tmp_path, container_disk()), below))
    assert disk_of(tmp_path) == DISK


def test_a_raw_disk_that_is_any_other_tar_stays_a_disk(tmp_path: Path) -> None:
    data = layer([directory("./"), file("./data.bin", b"of the guest's")])
    come_in(tmp_path, data)
    assert (tmp_path / "claim/disk.img").read_bytes().startswith(data)
