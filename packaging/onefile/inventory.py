"""Writes down what is inside the one file: a bill of materials (CycloneDX) and the text of every licence.

Run by packaging/build on its own virtual environment, with what collect.spec found. Writes two files into the tree.
A library without any word of its licence stops the build.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

LICENCES: Final = "licences.txt"
MATERIALS: Final = "sbom.cdx.json"
# Linked into the two programs, or collected by way of the interpreter.
_LINKED: Final = ("libpython3.{minor}", "libpython3.{minor}-stdlib", "libc6", "libzstd1")
_LICENCE_FILE: Final = re.compile(r"(?i)(^|/)(licen[cs]e|copying|notice|authors)[^/]*$|/licenses/")


@dataclass(frozen=True)
class Part:
    """One thing inside: `kind` and `name` as in package URLs; `licence` in a word or an SPDX expression."""

    kind: str
    name: str
    version: str
    licence: str
    text: str
    namespace: str = ""


def main(collected: Path, tree: Path, version: str) -> None:
    """Write licences and materials into the tree."""
    root = Path(os.environ["KVEDGE_ROOT"])
    parts = [*python_parts(collected), *debian_parts(tree), *console_parts(root)]
    parts.sort(key=lambda part: (part.kind, part.name))
    nameless = [part.name for part in parts if not part.text.strip()]
    if nameless:
        sys.exit(f"nothing says under which licence these are: {', '.join(nameless)}")
    own = (root / "LICENSE").read_text()
    (tree / LICENCES).write_text(licences_text(version, own, parts))
    (tree / MATERIALS).write_text(materials(version, parts))


def python_parts(collected: Path) -> Iterator[Part]:
    """The Python distributions of which something was collected."""
    inside = {re.sub(r"\.pyc$", ".py", name) for name, _, _ in json.loads(collected.read_text())}
    for found in importlib.metadata.distributions():
        files = found.files or []
        if not any(str(file) in inside for file in files if ".dist-info" not in str(file)):
            continue
        name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
        texts = [
            f"--- {file.name}\n{found.locate_file(file).read_text(errors='replace').strip()}\n"
            for file in sorted(files, key=str)
            if ".dist-info" in str(file) and _LICENCE_FILE.search(str(file))
        ]
        licence = named_licence(found.metadata)
        yield Part("pypi", name, found.version, licence, "\n".join(texts) or licence)


def named_licence(metadata: importlib.metadata.PackageMetadata) -> str:
    """What a distribution calls its licence: an expression, else its classifiers, else its own words."""
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [entry.split(" :: ")[-1] for entry in metadata.get_all("Classifier", []) if "License ::" in entry]
    own = str(metadata.get("License") or "").strip().split("\n")[0]
    return " and ".join(classifiers) or own


def debian_parts(tree: Path) -> Iterator[Part]:
    """The distribution's packages whose files were copied or linked."""
    names = {name.format(minor=sys.version_info.minor) for name in _LINKED}
    for library in sorted((tree / "lib").glob("lib*.so.*")):
        owner = run(["dpkg", "-S", f"*/{library.name}"]).split("\n")[0]
        names.add(owner.split(":")[0])
    for name in sorted(names):
        version = run(["dpkg-query", "-W", "-f", "${Version}\n", name]).split("\n")[0]
        text = Path("/usr/share/doc", name, "copyright").read_text(errors="replace")
        yield Part("deb", name, version, "see the text", text, "debian")


def console_parts(root: Path) -> Iterator[Part]:
    """The JavaScript of the web console's pages that is not ours: bundled, with all its licences in one file."""
    console, text = root / "packaging/console", (root / "kvedge/web/static/vendor/LICENSES.txt").read_text()
    locked = json.loads((console / "package-lock.json").read_text())["packages"]
    for name in json.loads((console / "package.json").read_text())["dependencies"]:
        entry = locked[f"node_modules/{name}"]
        namespace, _, short = name.rpartition("/")
        yield Part("npm", short, entry["version"], entry["license"], text, namespace)


def run(command: list[str]) -> str:
    """A tool's output."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def licences_text(version: str, own: str, parts: list[Part]) -> str:
    """All licences, for reading."""
    rule = "=" * 78
    sections = [f"{rule}\nkvedge {version}: Apache-2.0\n{rule}\n\n{own.strip()}\n"]
    sections += [
        f"{rule}\n{part.name} {part.version}: {part.licence}\n{rule}\n\n{part.text.strip()}\n" for part in parts
    ]
    return "\n".join(sections)


def materials(version: str, parts: list[Part]) -> str:
    """The bill of materials; its serial number and time follow from what is in it."""
    licence = LicenseFactory()
    root = Component(
        name="kvedge",
        version=version,
        type=ComponentType.APPLICATION,
        bom_ref=f"kvedge@{version}",
        licenses=[licence.make_from_string("Apache-2.0")],
        purl=PackageURL("generic", "", "kvedge", version),
    )
    bom = Bom()
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    bom.metadata.component = root
    for part in parts:
        url = PackageURL(part.kind, part.namespace, part.name, part.version)
        bom.components.add(
            Component(
                name=part.name,
                version=part.version,
                type=ComponentType.LIBRARY,
                bom_ref=str(url),
                licenses=[licence.make_from_string(part.licence)],
                purl=url,
            )
        )
    bom.dependencies.add(Dependency(root.bom_ref, [Dependency(part.bom_ref) for part in bom.components]))
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, " ".join(str(part.purl) for part in sorted(bom.components)))
    return str(JsonV1Dot6(bom).output_as_string(indent=1)) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
