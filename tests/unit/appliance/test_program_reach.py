"""Which places and modes keep user 107 from the program: real directories, links and modes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kvedge.appliance.program_reach import Unreachable, find_unreachable
from kvedge.runtime.program import program_command, program_directories, program_trees


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
    directories = [str(home / ".venv"), str(home / "kvedge")]
    trees = [str(home / "kvedge"), str(home / ".venv/lib/site-packages")]
    return find_unreachable(str(home / ".venv/bin/python"), directories, trees)


def test_a_closed_home_above_the_program_is_no_obstacle(checkout: Path) -> None:
    assert look(checkout) is None


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
    assert find_unreachable(program_command()[0], program_directories(), program_trees()) is None


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
        (".venv/lib/site-packages/one.py", 0o600),
        (".venv/lib/site-packages/library", 0o700),
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
    found = find_unreachable("/usr/bin/python3", [directory], [])
    assert found is not None
    assert "such as /opt" in found.remedy
