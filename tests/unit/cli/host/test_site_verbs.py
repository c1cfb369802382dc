# Tests: kvedge/cli/host/bundle_verbs.py, kvedge/cli/host/state_verbs.py, kvedge/cli/host/state_places.py
"""`kvedge bundle` and `kvedge state` on the command line: what is wrong is told before anything is written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.host.state_places import read_own_file


def kvedge_cli(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    command = [sys.executable, "-m", "kvedge", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cwd, timeout=60)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Where somebody packs a bundle."""
    (tmp_path / "vms/below").mkdir(parents=True)
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    (tmp_path / "vms/below/a.yaml").write_text(manifest)
    (tmp_path / "vms/notes.txt").write_text("no manifest")
    (tmp_path / "fedora-40.img").write_bytes(bytes(1024))
    (tmp_path / "my disk.img").write_bytes(bytes(1024))
    (tmp_path / "bad.yaml").write_text("apiVersion: v1\nmetadata: {name: a}\n")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy/fedora-40.img").write_bytes(bytes(1024))
    return tmp_path


def test_a_bundle_is_packed_shown_and_unpacked(desk: Path) -> None:
    packed = kvedge_cli(
        *("bundle", "create", "site.kvb", "--image", "fedora-40.img", "--manifest", "vms", "--no-program"), cwd=desk
    )
    assert packed.returncode == 0, packed.stderr
    digest = packed.stdout.split()[-1]
    shown = kvedge_cli("bundle", "show", "site.kvb", "--sha256", digest, cwd=desk)
    assert [line.split()[-1] for line in shown.stdout.splitlines()[1:]] == [
        "bundle.json",
        "images/fedora-40.img",
        "manifests/below/a.yaml",
    ]
    done = kvedge_cli("bundle", "unpack", "site.kvb", "--data-dir", desk / "box", cwd=desk)
    assert done.returncode == 0, done.stderr
    assert (desk / "box/manifests/below/a.yaml").read_text() == (desk / "vms/below/a.yaml").read_text()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        pytest.param(["--no-program", "--manifest", "bad.yaml"], Exit.FAILED, "bad.yaml:1: kind", id="a bad manifest"),
        pytest.param(["--no-program", "--image", "my disk.img"], Exit.FAILED, "rename the file", id="a bad name"),
        pytest.param(["--no-program", "--manifest", "vms/notes.txt"], Exit.USAGE, "ends with one of", id="no manifest"),
        pytest.param([], Exit.USAGE, "this is a checkout", id="no program"),
        pytest.param(
            ["--no-program", "--image", "fedora-40.img", "--image", "copy/fedora-40.img"],
            Exit.USAGE,
            "another image has this name",
            id="one name twice",
        ),
    ],
)
def test_what_would_fail_at_the_site_is_refused_at_the_desk(
    desk: Path, options: list[str], code: int, words: str
) -> None:
    done = kvedge_cli("bundle", "create", "site.kvb", *options, cwd=desk)
    assert (done.returncode, words in done.stderr) == (code, True), done.stderr
    assert not list(desk.glob("*site.kvb*"))


def test_a_damaged_bundle_and_a_damaged_backup_are_told_without_a_traceback(desk: Path) -> None:
    (desk / "rubbish").write_bytes(b"rubbish" * 300)
    unpacked = kvedge_cli("bundle", "unpack", "rubbish", "--data-dir", desk / "box", cwd=desk)
    restored = kvedge_cli("state", "restore", "rubbish", "--data-dir", desk / "box", cwd=desk)
    checked = kvedge_cli("state", "check", "rubbish", cwd=desk)
    assert (unpacked.returncode, restored.returncode, checked.returncode) == (Exit.FAILED, Exit.HOST, Exit.FAILED)
    assert "no bundle of kvedge" in unpacked.stderr
    assert "no file of `kvedge state backup`" in restored.stderr
    assert "1 of 1 are not sound" in checked.stderr
    assert "Traceback" not in unpacked.stderr + restored.stderr + checked.stderr
    assert not (desk / "box/state/kvedge.db").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(["usb", "--password-file", "own"], "is no place: name a directory by its whole path", id="a name"),
        pytest.param(["/mnt/usb"], "--to needs --password-file", id="no key"),
        pytest.param(["/mnt/usb", "--password-file", "loose"], "must be root's alone", id="a key that others read"),
        pytest.param(
            ["rest:http://store/", "--password-file", "own", "--key", "restPassword=loose"],
            "must be root's alone",
            id="what opens the place",
        ),
    ],
)
def test_a_state_goes_only_where_root_alone_says(desk: Path, words: list[str], told: str) -> None:
    """It holds the box's authorities and all Secrets."""
    for name, mode in (("own", 0o600), ("loose", 0o640)):
        (desk / name).write_text("word")
        (desk / name).chmod(mode)
    done = kvedge_cli("state", "backup", "--data-dir", desk / "box", "--to", *words, cwd=desk)
    assert done.returncode == Exit.USAGE
    assert told in done.stderr
    assert not (desk / "box").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a file of somebody else's")
def test_a_key_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("word")
    (tmp_path / "key").chmod(0o600)
    assert read_own_file(tmp_path / "key") == "word"
    os.chown(tmp_path / "key", 107, 107)
    with pytest.raises(Refused, match="root's alone"):
        read_own_file(tmp_path / "key")


def test_a_box_that_never_ran_has_no_state_to_back_up(desk: Path) -> None:
    done = kvedge_cli("state", "backup", "--data-dir", desk / "none", cwd=desk)
    assert done.returncode == Exit.FAILED
    assert "no kvedge standalone has run in" in done.stderr
