# Tests: kvedge/cli/host/roles.py
"""What a role says before it starts about a program that launchers cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.cli.exits import Exit, Refused
from kvedge.cli.host.roles import _need_reach
from kvedge.runtime import program


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of libraries beside those of this program."""
    tmp_path.chmod(0o755)
    directories = program.program_directories()
    monkeypatch.setattr(program, "program_directories", lambda: [*directories, str(tmp_path)])
    monkeypatch.setattr(program, "program_libraries", lambda: [str(tmp_path)])
    return tmp_path


def test_a_closed_library_is_a_line_in_the_log(libraries: Path, caplog: pytest.LogCaptureFixture) -> None:
    _need_reach()
    assert not caplog.records
    (libraries / "one.py").touch(0o600)
    _need_reach()
    [record] = caplog.records
    assert f"{libraries}/one.py has mode 0600" in record.facts["detail"]


def test_a_closed_directory_of_libraries_refuses_the_start(libraries: Path) -> None:
    libraries.chmod(0o700)
    with pytest.raises(Refused, match="no VM could start") as refused:
        _need_reach()
    assert refused.value.code == Exit.HOST
