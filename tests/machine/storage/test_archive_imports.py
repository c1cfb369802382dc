"""Archives as docker, skopeo and buildah write them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.storage.image_errors import BadImage, ImageError, ImageInUse, ImageNotFound
from kvedge.storage.images.image_import import import_file
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.launcher_image import launcher_image, write_launcher_image
from kvedge.storage.images.layer_unpack import UnpackLimits
from tests.machine.storage.conftest import left_over
from tests.support.small_images import busybox_archive, directory, file, layer, oci_archive


def _skopeo(*words: str) -> None:
    subprocess.run(["skopeo", "copy", "-q", "--insecure-policy", *words], check=True)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "busybox.tar"
    busybox_archive(path, "docker.io/library/busybox:1", {"Cmd": ["sh"], "Env": ["PATH=/bin"], "User": "web"})
    return path


def test_an_oci_archive_is_stored_under_the_name_it_carries(store: ImageStore, archive: Path) -> None:
    (image,) = import_file(store, archive)

    assert image.name == "docker.io/library/busybox:1"
    assert (image.config.command, image.config.user) == (("sh",), "web")
    assert os.readlink(image.tree / "bin/sh") == "busybox"
    assert store.resolve("busybox:1").id == image.id


def test_a_docker_archive_of_the_same_image_is_the_same_image(store: ImageStore, archive: Path, tmp_path: Path) -> None:
    (one,) = import_file(store, archive, "one")
    _skopeo(f"oci-archive:{archive}", f"docker-archive:{tmp_path}/docker.tar:local/two:2")
    (two,) = import_file(store, tmp_path / "docker.tar")

    assert two.name == "docker.io/local/two:2"
    assert (two.tree / "bin/busybox").read_bytes() == (one.tree / "bin/busybox").read_bytes()


@pytest.mark.parametrize("tool", ["gzip", "zstd", "xz"])
def test_a_compressed_archive_is_read(store: ImageStore, archive: Path, tool: str) -> None:
    subprocess.run([tool, "-q", "-k", str(archive)], check=True)
    suffix = {"gzip": "gz", "zstd": "zst", "xz": "xz"}[tool]
    (image,) = import_file(store, f"{archive}.{suffix}", "packed")

    assert (image.tree / "bin/busybox").exists()


def test_an_oci_layout_directory_with_zstd_layers_is_read(store: ImageStore, archive: Path, tmp_path: Path) -> None:
    _skopeo("--dest-compress-format", "zstd", f"oci-archive:{archive}", f"oci:{tmp_path}/layout:latest")
    (image,) = import_file(store, tmp_path / "layout", "from-layout")

    assert (image.tree / "bin/busybox").exists()


def test_several_layers_lie_on_top_of_each_other(store: ImageStore, tmp_path: Path) -> None:
    lower = layer([directory("disk"), file("disk/old.img", b"1"), file("etc/kept", b"k")])
    upper = layer([file("disk/.wh.old.img", b""), file("disk/new.img", b"2")])
    oci_archive(tmp_path / "a.tar", [lower, upper], {})
    (image,) = import_file(store, tmp_path / "a.tar", "two-layers")

    assert os.listdir(image.tree / "disk") == ["new.img"]
    assert (image.tree / "etc/kept").read_bytes() == b"k"


def _rewritten(source: Path, target: Path, change: dict[str, bytes]) -> Path:
    with tarfile.open(source) as archive:
        files = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        contents = {name: stream.read() for name, stream in files.items() if stream is not None}
    target.write_bytes(layer([file(name, data) for name, data in (contents | change).items()]))
    return target


def test_a_layer_that_is_not_what_its_digest_says_is_refused(store: ImageStore, archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as opened:
        largest = max(opened.getmembers(), key=lambda member: member.size)
    bad = _rewritten(archive, tmp_path / "bad.tar", {largest.name: gzip.compress(layer([file("x", b"evil")]))})

    with pytest.raises(BadImage, match="damaged"):
        import_file(store, bad)
    assert store.list() == []
    assert left_over(store) == []


def test_a_docker_archive_s_layer_that_is_not_what_the_config_says_is_refused(
    store: ImageStore, archive: Path, tmp_path: Path
) -> None:
    _skopeo(f"oci-archive:{archive}", f"docker-archive:{tmp_path}/docker.tar:local/two:2")
    with tarfile.open(tmp_path / "docker.tar") as opened:
        largest = max(opened.getmembers(), key=lambda member: member.size)
    bad = _rewritten(tmp_path / "docker.tar", tmp_path / "bad.tar", {largest.name: layer([file("x", b"evil")])})

    with pytest.raises(BadImage, match="damaged"):
        import_file(store, bad)
    assert left_over(store) == []


def test_an_image_for_another_architecture_is_refused_with_what_there_is(
    store: ImageStore, archive: Path, tmp_path: Path
) -> None:
    with tarfile.open(archive) as opened:
        stream = opened.extractfile("index.json")
        assert stream is not None
        index = json.load(stream)
    index["manifests"][0]["platform"] = {"os": "linux", "architecture": "riscv64"}
    bad = _rewritten(archive, tmp_path / "bad.tar", {"index.json": json.dumps(index).encode()})

    with pytest.raises(BadImage, match="linux/riscv64"):
        import_file(store, bad)


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        pytest.param({"a": b""}, "holds no image", id="a tar of anything"),
        pytest.param({"index.json": b"{"}, "no JSON", id="broken JSON"),
        pytest.param({"index.json": b"[" * 100_000}, "nested deeper than 100", id="nesting without end"),
        pytest.param({"index.json": b'{"manifests": []}'}, "lists no image", id="an empty index"),
        pytest.param(
            {"index.json": b'{"manifests":[{"digest":"../../etc/passwd"}]}'}, "no sha256", id="a path for a digest"
        ),
        pytest.param(
            {"manifest.json": b'[{"Config": "c", "Layers": ["l"]}]'}, "lacks c", id="a config that is not there"
        ),
        pytest.param({"manifest.json": b"[{}]"}, "without Config", id="an entry without anything"),
        pytest.param({"index.json": b"0" * (5 << 20)}, "larger than any", id="an endless document"),
    ],
)
def test_a_broken_archive_is_refused_with_a_reason(
    store: ImageStore, tmp_path: Path, contents: dict[str, bytes], words: str
) -> None:
    path = tmp_path / "bad.tar"
    path.write_bytes(layer([file(name, data) for name, data in contents.items()]))

    with pytest.raises(BadImage, match=words):
        import_file(store, path, "bad")
    assert left_over(store) == []


def test_an_archive_without_a_name_needs_one(store: ImageStore, tmp_path: Path) -> None:
    busybox_archive(tmp_path / "a.tar")
    with pytest.raises(ImageError, match="--name"):
        import_file(store, tmp_path / "a.tar")


def test_a_compression_bomb_is_stopped_at_the_limit(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images", UnpackLimits(total_bytes=10 << 20, entries=100))
    bomb = layer([file("zeros", bytes(64 << 20))])
    oci_archive(tmp_path / "bomb.tar", [bomb], {})

    with pytest.raises(BadImage, match="more than"):
        import_file(store, tmp_path / "bomb.tar", "bomb")
    assert left_over(store) == []


def test_a_full_disk_leaves_nothing_half_made(tmp_path: Path, archive: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "tmpfs", str(small)], check=True)
    try:
        store = ImageStore(small / "images")
        with pytest.raises(ImageError, match="free some space"):
            import_file(store, archive)
        assert store.list() == []
        assert left_over(store) == []
        assert sum(path.stat().st_size for path in small.rglob("*") if path.is_file()) < 1000
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_an_image_in_use_is_not_removed_and_one_that_is_not_goes_with_its_last_name(
    store: ImageStore, archive: Path
) -> None:
    (image,) = import_file(store, archive, "one")
    import_file(store, archive, "two")
    store.hold("one", "pod-1")

    with pytest.raises(ImageInUse, match="pod-1"):
        store.remove("two")
    store.release("pod-1")
    store.remove("one")
    assert image.tree.exists()
    store.remove("two")

    assert not image.tree.exists()
    with pytest.raises(ImageNotFound, match="kvedge image import"):
        store.resolve("one")


def test_a_name_that_is_given_again_lets_the_old_image_go_once_nobody_uses_it(
    store: ImageStore, archive: Path, tmp_path: Path
) -> None:
    (old,) = import_file(store, archive, "x")
    store.hold("x", "pod-1")
    oci_archive(tmp_path / "new.tar", [layer([file("new", b"")])], {})
    (new,) = import_file(store, tmp_path / "new.tar", "x")

    assert old.tree.exists()
    store.release("pod-1")

    assert not old.tree.exists()
    assert store.resolve("x").id == new.id


def test_remains_of_a_killed_import_are_swept_by_the_next_one(store: ImageStore, archive: Path) -> None:
    remains = store.root / "staging" / "new-killed"
    remains.mkdir(parents=True)
    (remains / "half").write_text("made")

    import_file(store, archive, "x")

    assert left_over(store) == []


def test_the_launcher_s_image_is_the_same_bytes_each_time_and_other_tools_read_it(
    store: ImageStore, tmp_path: Path
) -> None:
    path = tmp_path / "launcher.tar"
    write_launcher_image(path)

    assert path.read_bytes() == launcher_image(os.uname().machine)
    assert path.stat().st_size < 64 << 10
    found = subprocess.run(["skopeo", "inspect", f"oci-archive:{path}"], check=True, capture_output=True, text=True)
    assert json.loads(found.stdout)["Os"] == "linux"
    (image,) = import_file(store, path)
    assert image.name == LAUNCHER_IMAGE
    assert os.readlink(image.tree / "var/run") == "/run"
    assert image.config.user == "107:107"
