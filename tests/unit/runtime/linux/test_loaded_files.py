"""Files that were replaced under a process that has loaded them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, os
sys.path.insert(0, sys.argv[1])
import part
from kvedge.runtime.linux.loaded_files import LoadedFiles
files = LoadedFiles()
assert files.find_changed() == ""
assert any("python" in path for path in files._known), "the interpreter or its library"
CHANGE(sys.argv[1] + "/part.py")
print(files.find_changed())
"""
CHANGES = {
    "replaced": "(lambda path: os.replace(sys.argv[1] + '/other.py', path))",
    "removed": "os.unlink",
    "written to": "(lambda path: open(path, 'a').write('y = 1'))",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_module_that_is_another_one_by_now_is_named(tmp_path: Path, change: str) -> None:
    for name in ("part.py", "other.py"):
        (tmp_path / name).write_text("x = 1\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("CHANGE", CHANGES[change]), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )

    assert (done.stdout, done.stderr) == (f"{tmp_path}/part.py\n", "")
