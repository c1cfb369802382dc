"""Lays the tree out: starter, Python modules, what they need, and the licences of all of it.

Run by packaging/build in its virtual environment. Reads what collect.spec found; writes the tree's directory only.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

# Of the distribution's libraries only these go along: the host's libvirt driver loads none of them (tests hold that
# against Debian 12 and 13), and not every host has them. All others are the host's, above all those of which a second
# copy in libvirt's process would be fatal: libcrypto, libssl, libz, liblzma, libbz2, libffi, glib.
SHIPPED: Final = re.compile(r"lib(expat|sqlite3)\.so\.\d+")

# What a host with libvirt and its QEMU driver has. Anything else that the tree needs and has not is a mistake.
OF_THE_HOST: Final = re.compile(
    r"(ld-linux[\w-]*|lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+|z|lzma|bz2|ssl|crypto|ffi|virt|virt-qemu))\.so\.[\d.]+"
)

# Modules of C with no use here that would need more of the host.
LEFT_OUT: Final = re.compile(r"lib-dynload/(_uuid|_lsprof|_xx\w*|_test\w*|xxlimited\w*|audioop|termios_)\b")


def main(collected: Path, starter: Path, tree: Path) -> None:
    """Make the tree anew."""
    shutil.rmtree(tree, ignore_errors=True)
    modules = tree / "lib"
    modules.mkdir(parents=True)
    shutil.copyfile(starter, tree / "kvedge")
    (tree / "kvedge").chmod(0o755)
    for name, source, kind in json.loads(collected.read_text()):
        target = modules / re.sub(r"^python3\.\d+/", "", name)
        if not wanted(target, Path(source), kind):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        if ".so" in target.name:
            # Some wheels carry megabytes of what only a debugger reads.
            subprocess.run(["strip", "--strip-debug", str(target)], check=True)
    # Beside the package, as in a checkout: see kvedge/appliance/host/unit_files.py.
    units = Path(__file__).parents[2] / "systemd"
    shutil.copytree(units, modules / "systemd", ignore=shutil.ignore_patterns("*.md"))
    check_libraries(tree)


def wanted(target: Path, source: Path, kind: str) -> bool:
    """Whether a file that PyInstaller found goes into the tree."""
    if ".dist-info" in str(target) or target.name == "base_library.zip":
        # Metadata is in the bill of materials; the modules of that archive are there as files.
        return False
    if kind == "SYMLINK" or LEFT_OUT.search(str(target)):
        return False
    return kind != "BINARY" or bool(SHIPPED.fullmatch(target.name)) or ".cpython-" in target.name


def check_libraries(tree: Path) -> None:
    """Every library that something in the tree is linked with is in the tree, or known to be on each host."""
    present, unknown = {path.name for path in tree.rglob("*.so*")}, []
    for path in sorted(tree.rglob("*")):
        if not path.is_file() or path.open("rb").read(4) != b"\x7fELF":
            continue
        dynamic = subprocess.run(["readelf", "-dW", str(path)], capture_output=True, text=True, check=True).stdout
        for needed in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic):
            if needed not in present and not OF_THE_HOST.fullmatch(needed):
                unknown.append(f"{path.relative_to(tree)} needs {needed}")
    if unknown:
        sys.exit("neither in the tree nor on each host:\n" + "\n".join(unknown))


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:]))
