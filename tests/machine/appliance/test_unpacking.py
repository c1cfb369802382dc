"""The one file unpacks itself once, whole or not at all, and says what is in its way."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import kvedge
from tests.machine.appliance.one_file import NOBODY, as_nobody, on_file_system, start, the_tree
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(400)]

VERSION = f"Client Version: kvedge {kvedge.__version__}\n"
EXIT_BROKEN, EXIT_OF_HOST = 1, 5


def version(program: Path, data: Path) -> None:
    """Run it, and see that it works."""
    done = start(program, "version", data=data)
    assert (done.returncode, done.stdout, done.stderr) == (0, VERSION, "")


def states(tree: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of each file: a file that was written anew has another."""
    return {str(path): (path.stat().st_ino, path.stat().st_ctime_ns) for path in tree.rglob("*") if path.is_file()}


def test_the_file_is_small_enough(program: Path) -> None:
    assert program.stat().st_size <= 60_000_000


def test_the_first_start_unpacks_and_later_ones_change_nothing(program: Path, data: Path) -> None:
    version(program, data)
    tree = the_tree(data / "data")
    before = states(tree)
    version(program, data)
    assert states(tree) == before


def test_everybody_may_read_the_tree_and_only_its_owner_may_write(program: Path, data: Path) -> None:
    done = start(program, "version", data=data, before=["sh", "-c", 'umask 077; exec "$@"', "sh"])
    assert done.returncode == 0, done.stderr
    for path in (data / "data").rglob("*"):
        mode = path.stat().st_mode & 0o777
        assert path.name in (".lock", ".starts") or mode == (
            0o755 if path.is_dir() or path.name == "kvedge" else 0o644
        ), path


def test_it_works_where_tmp_cannot_be_used(program: Path, data: Path) -> None:
    before = on_file_system("ro,noexec", Path("/tmp"), "ls -A /tmp")
    done = start(program, "version", data=data, before=before)
    assert (done.returncode, done.stdout) == (0, VERSION)


def test_the_data_directory_of_the_command_line_counts(program: Path, data: Path) -> None:
    for number, arguments in enumerate((["--data-dir", "{}"], ["--data-dir={}"])):
        place = data / str(number)
        # killall ends at once where there is no box, and takes the option.
        done = start(program, "killall", *(argument.format(place) for argument in arguments), data=data / "other")
        assert done.returncode == 0, done.stderr
        the_tree(place / "data")
    assert not (data / "other").exists()


def test_many_that_start_at_once_make_one_tree(program: Path, data: Path) -> None:
    environment = {**os.environ, "KVEDGE_DATA_DIR": str(data)}
    running = [
        subprocess.Popen([program, "version", "--client"], stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(8)
    ]
    assert [(one.communicate()[0], one.returncode) for one in running] == [(VERSION, 0)] * 8
    the_tree(data / "data")


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def alter(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"altered")


def loosen(path: Path) -> None:
    path.chmod(0o666)


def give_away(path: Path) -> None:
    os.chown(path, NOBODY, NOBODY)


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("damage", [remove, cut, alter, loosen, give_away, replace_by_link])
def test_a_damaged_file_is_made_anew_and_the_others_are_not_touched(
    program: Path, data: Path, damage: Callable[[Path], None]
) -> None:
    version(program, data)
    tree = the_tree(data / "data")
    before, harmed = states(tree), tree / "lib/kvedge/cli/main.pyc"
    damage(harmed)
    version(program, data)
    after = states(tree)
    assert {path for path in before if before[path] != after[path]} == {str(harmed)}
    assert set(after) == set(before)
    assert Path("/etc/passwd").stat().st_size > 100


def test_a_change_that_hides_is_found_by_verify(program: Path, data: Path) -> None:
    version(program, data)
    assert start(program, "--verify", data=data).stdout.endswith("all as they were built\n")
    harmed = the_tree(data / "data") / "lib/kvedge/cli/main.pyc"
    seen, content = harmed.stat(), harmed.read_bytes()
    alter(harmed)
    os.utime(harmed, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert start(program, "--verify", data=data).stdout.endswith("1 of them written anew\n")
    assert harmed.read_bytes() == content


def test_an_empty_tree_is_filled(program: Path, data: Path) -> None:
    version(program, data)
    tree = the_tree(data / "data")
    shutil.rmtree(tree)
    tree.mkdir()
    version(program, data)


def test_what_a_killed_predecessor_left_is_swept(program: Path, data: Path) -> None:
    leftover = data / "data" / ".part-x1y2z3"
    (leftover / "lib").mkdir(parents=True)
    version(program, data)
    the_tree(data / "data")


def test_a_kill_in_the_middle_leaves_nothing_that_counts(program: Path, data: Path) -> None:
    process = subprocess.Popen([program, "version"], env={"KVEDGE_DATA_DIR": str(data)}, stdout=subprocess.DEVNULL)
    wait_until(lambda: list((data / "data").glob(".part-*/lib")), "it unpacks", 60, 0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    version(program, data)
    the_tree(data / "data")


@pytest.mark.parametrize("options", ["size=8m", "size=400m,nr_inodes=300"], ids=["bytes", "inodes"])
def test_a_full_disk_is_said_and_nothing_is_left(program: Path, data: Path, options: str) -> None:
    done = start(program, "version", data=data, before=on_file_system(options, data, f"ls -A {data}/data >&2"))
    assert done.returncode == EXIT_OF_HOST
    message, *left = done.stderr.splitlines()
    assert message.startswith("error: the disk is full: kvedge ")
    assert str(data) in message
    assert "--data-dir" in message
    assert set(left) <= {".lock", ".starts"}


def test_a_directory_that_is_mounted_noexec_is_named(program: Path, data: Path) -> None:
    done = start(program, "version", data=data, before=on_file_system("noexec", data))
    assert done.returncode == EXIT_OF_HOST
    assert done.stderr.startswith(f"error: {data}/data is on a file system that is mounted noexec")


def test_a_read_only_disk_is_named(program: Path, data: Path) -> None:
    done = start(program, "version", data=data, before=on_file_system("ro", data))
    assert done.returncode == EXIT_OF_HOST
    assert done.stderr.startswith(
        f"error: kvedge unpacks itself to {data}/data, which cannot be made or written: Read-only"
    )


@pytest.mark.parametrize("kept", [0.999999, 0.5, 0.05])
def test_a_file_that_was_cut_is_refused(program: Path, data: Path, kept: float) -> None:
    cut_off = data / "kvedge"
    content = program.read_bytes()
    cut_off.write_bytes(content[: int(len(content) * kept)])
    cut_off.chmod(0o755)
    done = start(cut_off, "version", data=data)
    assert (done.returncode, done.stdout) == (EXIT_BROKEN, "")
    assert done.stderr.startswith(f"error: {cut_off} is not as it was built: ")
    assert "download it again" in done.stderr
    assert not (data / "data").exists()


@pytest.mark.parametrize("place", [0.2, 0.5, 0.999])
def test_a_file_that_was_changed_is_refused_before_anything_is_unpacked(
    program: Path, data: Path, place: float
) -> None:
    changed = data / "kvedge"
    content = bytearray(program.read_bytes())
    content[int(len(content) * place)] ^= 1
    changed.write_bytes(content)
    changed.chmod(0o755)
    done = start(changed, "version", data=data)
    assert (done.returncode, done.stdout) == (EXIT_BROKEN, "")
    assert "its digest is another" in done.stderr
    assert set(os.listdir(data / "data")) <= {".lock", ".starts"}


def test_a_list_of_files_that_leads_out_of_the_tree_is_refused(program: Path, data: Path) -> None:
    changed = data / "kvedge"
    content = program.read_bytes()
    changed.write_bytes(content.replace(b" lib/kvedge/cli/main.pyc\n", b" ../../../../../etc/p.pyc\n"))
    changed.chmod(0o755)
    done = start(changed, "version", data=data)
    assert done.returncode == EXIT_BROKEN
    assert "leads out of the tree" in done.stderr


def test_a_user_without_rights_has_a_tree_in_the_cache(program: Path, data: Path) -> None:
    home = data / "home"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    for environment, place in (
        ({"HOME": str(home)}, home / ".cache/kvedge"),
        ({"XDG_CACHE_HOME": f"{home}/x"}, home / "x/kvedge"),
    ):
        done = start(program, "version", data=data / "system", before=as_nobody(program), environment=environment)
        assert (done.returncode, done.stdout) == (0, VERSION), done.stderr
        assert the_tree(place).stat().st_uid == NOBODY
        assert place.stat().st_mode & 0o777 == 0o700


def test_a_user_without_rights_uses_the_tree_that_root_made(program: Path, data: Path) -> None:
    version(program, data)
    done = start(program, "version", data=data, before=as_nobody(program))
    assert (done.returncode, done.stdout) == (0, VERSION), done.stderr


def test_a_user_who_may_write_nowhere_is_told(program: Path, data: Path) -> None:
    done = start(program, "version", data=data / "system", before=as_nobody(program))
    assert done.returncode == EXIT_OF_HOST
    assert "XDG_CACHE_HOME" in done.stderr


@pytest.mark.parametrize("harm", [give_away, loosen])
def test_a_tree_that_others_could_have_changed_is_not_run(
    program: Path, data: Path, harm: Callable[[Path], None]
) -> None:
    version(program, data)
    tree = the_tree(data / "data")
    harm(tree)
    done = start(program, "version", data=data)
    assert done.returncode == EXIT_OF_HOST
    assert done.stderr == f"error: {tree} belongs to another user, or others may write there: remove it\n"


def test_what_is_inside_is_listed_with_its_licences(program: Path, data: Path) -> None:
    licences = start(program, "version", "--licences", data=data).stdout
    beside = program.with_name(f"{program.name}.licences.txt").read_text()
    assert licences == beside
    titles = set(re.findall(r"^=+\n([a-z-]+)\S* .+: .+\n=+$", licences, re.MULTILINE))
    assert titles >= {"kvedge", "grpcio", "cryptography", "libvirt-python", "libpython", "libc"}
    materials = json.loads(program.with_name(f"{program.name}.cdx.json").read_text())
    assert materials["bomFormat"] == "CycloneDX"
    named = {re.sub(r"[\d.]+(?=$|-stdlib)", "", part["name"]) for part in materials["components"]}
    assert titles - {"kvedge"} <= {re.match(r"[a-z-]*", name)[0] for name in named}  # type: ignore[index]


def test_the_checksums_beside_it_are_right(program: Path) -> None:
    lines = program.with_name("SHA256SUMS").read_text().splitlines()
    assert len(lines) == 3
    for line in lines:
        digest, name = line.split()
        assert hashlib.sha256(program.with_name(name).read_bytes()).hexdigest() == digest
