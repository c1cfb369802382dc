"""What is in the one file: everything the program imports, no library of libvirt's, the same bytes each time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvedge.cli.verbs import VERBS
from tests.machine.appliance.one_file import start, the_tree
from tests.support.built_program import program_in, run_build

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]

# In the tree's own interpreter only kvedge can be run: this one is of the same version and sees nothing else either.
IMPORT_ALL = """
import sys
tree, early = sys.argv[1], set(sys.modules)
sys.path = [f"{tree}/lib", f"{tree}/lib/lib-dynload"]
import importlib, pathlib
for path in sorted(pathlib.Path(tree, "lib/kvedge").rglob("*.pyc")):
    name = ".".join(path.relative_to(f"{tree}/lib").with_suffix("").parts).removesuffix(".__init__")
    if name != "kvedge.__main__":
        importlib.import_module(name)
for path in sorted(pathlib.Path(tree, "lib/lib-dynload").glob("*.so")):
    importlib.import_module(path.name.split(".")[0])
import pyroute2
from kvedge.standalone.apiserver.schema.cel_edge import condition_holds
assert condition_holds("object.a == 1", {"object": {"a": 1}})
new = [module for name, module in sys.modules.items() if name not in early and not name.startswith("encodings.")]
loaded = [module for module in new if getattr(getattr(module, "__spec__", None), "origin", "") != "frozen"]
files = [module.__file__ for module in loaded if getattr(module, "__file__", None)]
print(len(files), *(file for file in files if not file.startswith(tree)))
"""


@pytest.fixture
def tree(program: Path, data: Path) -> Path:
    start(program, "version", data=data)
    return the_tree(data / "data")


def test_every_module_and_what_it_imports_is_there(tree: Path) -> None:
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-S", "-c", IMPORT_ALL, str(tree)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    count, *outside = done.stdout.split()
    assert int(count) > 1000
    assert outside == []
    # Loaded by name when a host's name or a file's text asks for it.
    assert all((tree / f"lib/encodings/{name}.pyc").exists() for name in ("idna", "ascii", "latin_1", "utf_8_sig"))


def test_every_verb_explains_itself(program: Path, data: Path) -> None:
    named = set(re.findall(r"^  ([a-z][a-z-]+)  +\S", start(program, "--help", data=data).stdout, re.MULTILINE))
    assert {"standalone", "get", "console"} <= named & set(VERBS)
    for verb in sorted(named & set(VERBS)):
        done = start(program, verb, "--help", data=data)
        assert (done.returncode, done.stderr) == (0, ""), verb


def test_no_library_that_libvirt_loads_goes_along(tree: Path) -> None:
    shipped = {path.name for path in tree.rglob("*.so*")}
    drivers = sorted(Path("/usr/lib").glob("*/libvirt/**/*.so"))
    assert drivers
    listed = subprocess.run(["ldd", *map(str, drivers)], capture_output=True, text=True, check=False).stdout
    of_libvirt = {line.split()[0] for line in listed.splitlines() if "=>" in line}
    assert {"libvirt.so.0", "libcrypto.so.3", "libz.so.1", "libglib-2.0.so.0"} <= of_libvirt
    assert shipped & of_libvirt == set()
    assert not {name for name in shipped if re.match(r"lib(crypto|ssl|z|lzma|bz2|ffi|glib|virt)\b", name)}


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the file is built on Debian 12, with its Python 3.11")
def test_two_builds_of_the_same_sources_are_equal_byte_for_byte(program: Path, tmp_path: Path) -> None:
    proven = program.with_name("built-twice")
    if not proven.exists():
        shutil.copytree(program.with_name("sources"), tmp_path / "another" / "place")
        before = {"HOME": str(tmp_path), "USER": "somebody", "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo", "CFLAGS": "-g"}
        kept = {name: os.environ.get(name) for name in before}
        os.environ.update(before)
        try:
            run_build(tmp_path / "another" / "place", tmp_path / "made")
        finally:
            for name, value in kept.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        again = program_in(tmp_path / "made")
        assert again.read_bytes() == program.read_bytes()
        assert (tmp_path / "made/SHA256SUMS").read_text() == program.with_name("SHA256SUMS").read_text()
        proven.touch()
