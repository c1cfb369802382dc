"""Which places and modes keep user 107 from the program: real directories, links and modes."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvedge.appliance.host.program_reach import Unreachable, find_closed_library, find_unreachable
from kvedge.runtime.program import program_command, program_directories, program_libraries, program_package


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small one, in a home that its user alone may enter."""
    home = tmp_path / "home of ü"
    for directory in ("kvedge/inner/__pycache__", ".venv/bin", ".venv/lib/site-packages/library"):
        (home / directory).mkdir(parents=True)
    (home / ".venv/bin/python3").symlink_to("/usr/bin/python3")
    (home / ".venv/bin/python").symlink_to("python3")
    files = ("kvedge/__init__.py", "kvedge/inner/__init__.py", "kvedge/inner/__pycache__/a.pyc")
    for name in (*files, ".venv/lib/site-packages/one.py", ".venv/lib/site-packages/library/__init__.py"):
        (home / name).write_text("")
    (home / ".venv/lib/site-packages/lost.py").symlink_to("/nonexistent")
    subprocess.run(["chmod", "-R", "u=rwX,go=rX", home], check=True)
    home.chmod(0o700)
    tmp_path.chmod(0o700)
    return home


def look(home: Path) -> Unreachable | None:
    directories, libraries = seen(home)
    return find_unreachable(str(home / ".venv/bin/python"), directories, str(home / "kvedge"), libraries)


def look_at_libraries(home: Path) -> Unreachable | None:
    return find_closed_library(*seen(home))


def seen(home: Path) -> tuple[list[str], list[str]]:
    return [str(home / ".venv"), str(home / "kvedge")], [str(home / ".venv/lib/site-packages")]


def test_a_closed_home_above_the_program_is_no_obstacle(checkout: Path) -> None:
    assert look(checkout) is None
    assert look_at_libraries(checkout) is None


@pytest.mark.parametrize("name", [".venv", "kvedge"])
def test_a_directory_that_is_itself_a_link_is_mounted_in_its_place(checkout: Path, name: str) -> None:
    elsewhere = checkout.parent / "volumes"
    elsewhere.mkdir(mode=0o700)
    (checkout / name).rename(elsewhere / name)
    (checkout / name).symlink_to(elsewhere / name)
    assert look(checkout) is None
    (elsewhere / name).chmod(0o700)
    found = look(checkout)
    assert found is not None
    assert found.path == str(checkout / name)
    assert "has mode 0700" in found.reason


def test_this_very_program_can_be_reached() -> None:
    directories, libraries = program_directories(), program_libraries()
    assert find_unreachable(program_command()[0], directories, program_package(), libraries) is None
    assert find_closed_library(directories, libraries) is None


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        ("kvedge", 0o700),
        ("kvedge", 0o711),
        ("kvedge/__init__.py", 0o600),
        ("kvedge/inner", 0o744),
        ("kvedge/inner/__init__.py", 0o640),
        (".venv", 0o700),
        (".venv/bin", 0o700),
        (".venv/lib", 0o700),
        (".venv/lib/site-packages", 0o700),
    ],
)
def test_what_the_user_may_not_read_is_named_with_its_mode_and_the_remedy(checkout: Path, path: str, mode: int) -> None:
    (checkout / path).chmod(mode)
    found = look(checkout)
    assert found is not None
    assert found.path == str(checkout / path)
    assert f"has mode {mode:04o}" in str(found)
    root = checkout / path.split("/")[0]
    assert f"run `chmod -R go+rX '{root}'`" in str(found)
    command = str(found).partition("`")[2].partition("`")[0]
    subprocess.run(command, shell=True, check=True)
    assert look(checkout) is None
    assert checkout.stat().st_mode & 0o777 == 0o700


def test_compiled_files_that_cannot_be_read_do_not_matter(checkout: Path) -> None:
    (checkout / "kvedge/inner/__pycache__").chmod(0o700)
    assert look(checkout) is None


@pytest.mark.parametrize(
    "name",
    [".#__init__.py", ".__init__.py.swp", "__init__.py~", "__init__.py.orig", "notes.txt", ".idea/workspace.py"],
)
@pytest.mark.parametrize("place", ["kvedge", "kvedge/inner", ".venv/lib/site-packages"])
def test_files_that_nobody_imports_do_not_matter(checkout: Path, place: str, name: str) -> None:
    path = checkout / place / name
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)
    assert look(checkout) is None
    assert look_at_libraries(checkout) is None


@pytest.mark.parametrize(("name", "mode"), [("one.py", 0o600), ("one.so", 0o600), ("library", 0o700)])
def test_a_library_that_cannot_be_read_is_told_and_refuses_nothing(checkout: Path, name: str, mode: int) -> None:
    path = checkout / ".venv/lib/site-packages" / name
    if not path.exists():
        path.touch()
    path.chmod(mode)
    assert look(checkout) is None
    found = look_at_libraries(checkout)
    assert found is not None
    assert found.path == str(path)
    assert "no VM could start" not in found.fault


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ESTALE, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("place", ["kvedge", "kvedge/inner/__init__.py", ".venv/lib/site-packages/one.py", ".venv"])
def test_what_cannot_be_judged_refuses_nothing(
    checkout: Path, place: str, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that goes meanwhile, or a file system that lets root look at nothing."""
    stat = os.stat

    def fails(path: Any, **options: Any) -> os.stat_result:
        if path == str(checkout / place):
            raise OSError(number, os.strerror(number), path)
        return stat(path, **options)

    monkeypatch.setattr("kvedge.appliance.host.program_reach.os.stat", fails)
    assert look(checkout) is None
    assert look_at_libraries(checkout) is None
    assert bool(caplog.records) is (number != errno.ENOENT)
    assert all(str(checkout / place) in record.facts["error"] for record in caplog.records)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
@pytest.mark.parametrize(("uid", "gid", "mode"), [(107, 0, 0o400), (0, 107, 0o040)], ids=["its user", "its group"])
def test_what_belongs_to_the_launchers_user_or_group_is_read_by_their_bits(
    checkout: Path, uid: int, gid: int, mode: int
) -> None:
    path = checkout / "kvedge/__init__.py"
    path.chmod(mode)
    assert look(checkout) is not None
    os.chown(path, uid, gid)
    assert look(checkout) is None


def outside(checkout: Path) -> None:
    """As an interpreter of pyenv, through a link in a directory that no launcher has."""
    (checkout / "tools").mkdir()
    (checkout / "tools/python3").symlink_to("/usr/bin/python3")
    relink(checkout, "../../tools/python3")


def round_and_round(checkout: Path) -> None:
    relink(checkout, "python")


def relink(checkout: Path, target: str) -> None:
    (checkout / ".venv/bin/python3").unlink()
    (checkout / ".venv/bin/python3").symlink_to(target)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (outside, "which is all that they see of this host; make the virtual environment anew"),
        (round_and_round, "link"),
    ],
)
def test_an_interpreter_that_is_a_link_to_elsewhere_is_refused(
    checkout: Path, spoil: Callable[[Path], None], words: str
) -> None:
    spoil(checkout)
    found = look(checkout)
    assert found is not None
    assert words in str(found)


@pytest.mark.parametrize("directory", ["/proc/self", "/sys/kernel"])
def test_what_lies_below_a_launchers_own_directories_is_refused(directory: str) -> None:
    found = find_unreachable("/usr/bin/python3", [directory], directory, [])
    assert found is not None
    assert "such as /opt" in found.remedy
