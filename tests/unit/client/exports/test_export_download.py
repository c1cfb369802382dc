# Tests: kvedge/client/exports/export_calls.py, kvedge/client/exports/memory_dumps.py
# Tests: kvedge/cli/machines/export_verbs.py, kvedge/client/exports/new_file.py
"""Disks and manifests of exports are saved by virtctl's verbs, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.cli import group
from kvedge.cli.exits import Exit
from kvedge.client.errors import NotFoundError, UsageError
from kvedge.client.exports import export_download
from kvedge.client.exports.export_download import Way, choose_link, choose_url
from tests.support.played_exports import PlayedExports, played_exports
from tests.support.played_vm_api import EXPORTS, SECRETS, VMS, PlayedApi
from tests.support.scripted_api import scripted_api

DISK = os.urandom(70_000) + bytes(8 << 20) + os.urandom(512)
PACKED = os.urandom(200_000)


@pytest.fixture
def exports(tmp_path: Path) -> Iterator[PlayedExports]:
    with played_exports(tmp_path) as found:
        for name, content in (("disk", DISK), ("packed", PACKED), ("all", b"kind: List"), ("secret", b"kind: Secret")):
            (tmp_path / name).write_bytes(content)
        found.files = {
            "/volumes/root/disk.img": tmp_path / "disk",
            "/volumes/root/disk.img.gz": tmp_path / "packed",
            "/external/manifests/all": tmp_path / "all",
            "/external/manifests/secret": tmp_path / "secret",
        }
        found.token = "t" * 20
        yield found


@pytest.fixture
def api(exports: PlayedExports, monkeypatch: pytest.MonkeyPatch) -> PlayedApi:
    monkeypatch.setattr("kvedge.client.exports.export_calls.secrets.choice", lambda letters: "t")
    monkeypatch.setattr(export_download, "_AGAIN_SECONDS", 0.0)
    found = PlayedApi(exports)
    forms = [("raw", "disk.img"), ("gzip", "disk.img.gz")]
    volume = {"name": "root", "formats": [{"format": a, "url": exports.url(f"/volumes/root/{b}")} for a, b in forms]}
    manifests = [
        {"type": "all", "url": exports.url("/external/manifests/all")},
        {"type": "auth-header-secret", "url": exports.url("/external/manifests/secret")},
    ]
    link = {"cert": exports.ca, "volumes": [volume], "manifests": manifests}
    found.export_status = {"phase": "Ready", "links": {"external": link}}
    return found


@pytest.fixture
def run(api: PlayedApi, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Iterator[Any]:
    with scripted_api(api.answer) as server:
        kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")

        def call(*arguments: str | Path) -> tuple[int, bytes, str]:
            code = group.run([*map(str, arguments), "--kubeconfig", str(kubeconfig)])
            told = capfdbinary.readouterr()
            return code, told.out, told.err.decode()

        yield call


def left(api: PlayedApi) -> list[str]:
    return [path.rpartition("/")[2] for path in api.objects if path.startswith(EXPORTS)]


def test_an_export_is_made_and_deleted(run: Any, api: PlayedApi) -> None:
    code, out, err = run("vmexport", "create", "e", "--vm", "web", "--ttl", "4h")
    assert (code, out) == (0, b"VirtualMachineExport 'default/e' created successfully\n"), err
    assert api.objects[f"{EXPORTS}/e"]["spec"] == {
        "source": {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"},
        "tokenSecretRef": "secret-e",
        "ttlDuration": "4h",
    }
    (owner,) = api.objects[f"{SECRETS}/secret-e"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("VirtualMachineExport", "uid-of-e")
    assert run("vmexport", "create", "e", "--pvc", "x")[0] == Exit.USAGE
    assert run("vmexport", "delete", "e")[1] == b"VirtualMachineExport 'default/e' deleted successfully\n"
    code, out, _ = run("vmexport", "delete", "e")
    assert (code, out) == (0, b"VirtualMachineExport 'default/e' does not exist\n")


def test_an_export_whose_token_is_refused_is_not_left(run: Any, api: PlayedApi) -> None:
    api.refused.add(SECRETS)
    assert run("vmexport", "create", "e", "--vm", "web")[0] == Exit.FAILED
    assert left(api) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["create", "e"], "need to specify export kind"),
        (["create", "e", "--vm", "a", "--pvc", "b"], "an export has one source"),
        (["download", "e", "--vm", "a"], "--output: name the new file"),
        (["download", "e", "--output", "x", "--keep-vme", "--delete-vme"], "is incompatible with"),
        (["download", "e", "--output", "x", "--include-secret"], "goes with --manifest"),
        (["download", "e", "--output", "x", "--manifest", "--volume", "a"], "takes neither"),
        (["download", "e", "--output", "-", "--format", "raw"], "needs a file"),
        (["download", "e", "--output", "x", "--port-forward"], "--service-url 127.0.0.1:8443 --insecure"),
    ],
)
def test_what_goes_not_together_is_refused_first(run: Any, api: PlayedApi, arguments: list[str], words: str) -> None:
    code, _, err = run("vmexport", *arguments)
    assert (code, api.posts) == (Exit.USAGE, [])
    assert words in err


def test_a_raw_disk_keeps_its_holes(run: Any, api: PlayedApi, exports: PlayedExports, tmp_path: Path) -> None:
    exports.breaks, exports.breaks_after = 1, 1000
    path = tmp_path / "web.img"
    code, out, err = run("vmexport", "download", "e", "--vm", "web", "--format", "raw", "--output", path)
    assert (code, out) == (0, b"Download finished successfully\n"), err
    assert path.read_bytes() == DISK
    assert path.stat().st_blocks * 512 < len(DISK)
    # What this call has made goes.
    assert left(api) == []


def test_a_packed_disk_begins_anew_when_a_connection_breaks(
    run: Any, api: PlayedApi, exports: PlayedExports, tmp_path: Path
) -> None:
    exports.breaks, exports.breaks_after = 1, 100_000
    path = tmp_path / "web.gz"
    code, _, err = run("vmexport", "download", "e", "--pvc", "web", "--output", path, "--keep-vme")
    assert code == 0, err
    assert path.read_bytes() == PACKED
    assert left(api) == ["e"]
    exports.breaks = 9
    code, _, err = run("vmexport", "download", "e", "--output", tmp_path / "x", "--retry", "1", "--delete-vme")
    assert (code, (tmp_path / "x").exists(), left(api)) == (Exit.FAILED, False, [])
    assert not list(tmp_path.glob(".x*"))


def test_an_export_that_was_there_stays(run: Any, api: PlayedApi, tmp_path: Path) -> None:
    run("vmexport", "create", "e", "--vm", "web")
    assert run("vmexport", "download", "e", "--output", tmp_path / "a")[0] == 0
    assert left(api) == ["e"]
    del api.objects[f"{SECRETS}/secret-e"]
    code, _, err = run("vmexport", "download", "e", "--output", tmp_path / "b")
    assert code == Exit.NOT_FOUND
    assert "has no token in a Secret secret-e" in err


def test_a_disk_goes_onto_standard_output(run: Any, exports: PlayedExports) -> None:
    assert run("vmexport", "download", "e", "--vm", "web", "--output", "-")[:2] == (0, PACKED)
    # What has been written there cannot be taken back.
    exports.breaks, exports.breaks_after, exports.sent = 1, 100_000, 0
    assert run("vmexport", "download", "e", "--vm", "web", "--output", "-")[0] == Exit.FAILED


def test_manifests_are_printed(run: Any, tmp_path: Path) -> None:
    code, out, err = run("vmexport", "download", "e", "--vm", "web", "--manifest", "--include-secret")
    assert (code, out) == (0, b"kind: List\n---\nkind: Secret\n"), err
    assert run("vmexport", "download", "e", "--vm", "web", "--manifest", "--output", tmp_path / "m")[0] == 0
    assert (tmp_path / "m").read_bytes() == b"kind: List"


def test_a_file_that_is_there_is_left_alone(run: Any, api: PlayedApi, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    code, _, err = run("vmexport", "download", "e", "--vm", "web", "--output", tmp_path / "a")
    assert (code, api.posts, (tmp_path / "a").read_text()) == (Exit.USAGE, [], "mine")
    assert "is there already" in err


def test_a_memory_dump_is_saved_once_it_is_whole(run: Any, api: PlayedApi, tmp_path: Path) -> None:
    vm: dict[str, Any] = {"metadata": {"name": "web", "namespace": "default"}, "spec": {}, "status": {}}
    api.objects[f"{VMS}/web"] = vm
    code, _, err = run("memory-dump", "download", "web", "--output", tmp_path / "dump")
    assert code == Exit.NOT_FOUND
    assert "`kvedge memory-dump get web`" in err
    vm["status"] = {"memoryDumpRequest": {"claimName": "dumps", "phase": "Failed", "message": "no room"}}
    assert "failed: no room" in run("memory-dump", "download", "web", "--output", tmp_path / "dump")[2]
    vm["status"] = {"memoryDumpRequest": {"claimName": "dumps", "phase": "InProgress"}}
    code, _, err = run("memory-dump", "download", "web", "--output", tmp_path / "dump", "--timeout", "1")
    assert code == Exit.TIMED_OUT
    vm["status"] = {"memoryDumpRequest": {"claimName": "dumps", "phase": "Completed"}}
    code, _, err = run("memory-dump", "download", "web", "--output", tmp_path / "dump")
    assert code == 0, err
    assert (tmp_path / "dump").read_bytes() == PACKED
    assert left(api) == []
    assert api.posts[0][1]["spec"]["source"] == {"apiGroup": "", "kind": "PersistentVolumeClaim", "name": "dumps"}


VOLUMES = {
    "volumes": [
        {
            "name": "a",
            "formats": [{"format": "raw", "url": "https://x/a"}, {"format": "gzip", "url": "https://x/a.gz"}],
        },
        {
            "name": "b",
            "formats": [{"format": "dir", "url": "https://x/b/"}, {"format": "tar.gz", "url": "https://x/b.t"}],
        },
    ]
}


@pytest.mark.parametrize(
    ("volume", "form", "found"),
    [
        ("a", "gzip", ("gzip", "https://x/a.gz")),
        ("a", "raw", ("raw", "https://x/a")),
        ("b", "gzip", ("tar.gz", "https://x/b.t")),
    ],
)
def test_a_volume_is_chosen(volume: str, form: str, found: tuple[str, str]) -> None:
    assert choose_url(VOLUMES, volume, form) == found


@pytest.mark.parametrize(
    ("volume", "form", "words"),
    [
        ("", "gzip", "more than one downloadable volume"),
        ("c", "gzip", "the export has a, b"),
        ("b", "raw", "is served as dir, tar.gz"),
    ],
)
def test_what_cannot_be_chosen_is_told(volume: str, form: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        choose_url(VOLUMES, volume, form)


def test_the_way_in_is_from_outside_unless_another_one_is_named() -> None:
    links = {"internal": {"cert": "i"}, "external": {"cert": "e"}}
    assert choose_link(links, Way())["cert"] == "e"
    assert choose_link(links, Way("127.0.0.1:8443"))["cert"] == "i"
    with pytest.raises(NotFoundError, match="kubectl port-forward"):
        choose_link({"internal": {}}, Way())
