"""Files that cannot be read are put aside, found again, and fill no disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.runtime.damaged_files import find_damaged_files, is_aside, put_aside


def test_a_damaged_file_stays_beside_its_place_and_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(b"{")
    aside = put_aside(path, "it is cut")
    assert (aside.parent, aside.read_bytes()) == (tmp_path, b"{")
    assert not path.exists()
    assert is_aside(aside.name)
    assert f"{path} is damaged and was put aside as {aside.name}: it is cut" in caplog.text


def test_a_directory_in_its_place_is_put_aside_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    (path / "deep").mkdir(parents=True)
    assert (put_aside(path, "a directory") / "deep").is_dir()


def test_one_that_is_damaged_again_and_again_keeps_its_names_apart_and_fills_no_disk(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / "a").write_text(str(number))
        put_aside(tmp_path / "a", "again")
    found = [path.read_text() for path in tmp_path.iterdir()]
    assert "0" in found
    assert "29" in found
    # The second may have changed meanwhile.
    assert len(found) <= 18


def test_they_are_found_so_deep_and_nothing_else_is(tmp_path: Path) -> None:
    for name in ("a.json.damaged-20260102T030405Z", "b/c.damaged-20260102T030405Z.2", "b/d/e.damaged-20260102T030405Z"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    (tmp_path / "damaged-20260102T030405Z").mkdir()
    assert [path.name for path in find_damaged_files(tmp_path, 0)] == ["a.json.damaged-20260102T030405Z"]
    assert len(list(find_damaged_files(tmp_path, 1))) == 2
    assert len(list(find_damaged_files(tmp_path, 2))) == 3
    assert list(find_damaged_files(tmp_path / "none", 1)) == []
