# Tests: README.md, CONTRIBUTING.md
"""The documents of the repository: their links lead somewhere, their lines can be read, and the first page stays short.

Looks at every Markdown file of a checkout, and at nothing outside it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "kvedge"
# What is made or installed in a checkout, and not written by us.
MADE: Final = {"build", "dist", "node_modules"}
LONGEST_LINE: Final = 120
# What a newcomer reads to the end.
README_LINES: Final = 250
# Rooms whose README says what the first page has no place for.
ROOMS: Final = ("k3s", "systemd", "packaging", "kvedge", "kvedge/api", "kvedge/standalone", "tests")

FENCE: Final = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
CODE: Final = re.compile(r"`[^`\n]*`")
LINK: Final = re.compile(r"\[([^\]]*)\]\(([^()\s]+)\)")
HEADING: Final = re.compile(r"^#+ +(.*?) *#*$", re.MULTILINE)


def documents(root: Path) -> list[Path]:
    """All Markdown files of a checkout; what is installed in it has thousands of folders, and is not looked into."""
    found: list[Path] = []
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not _is_made(name)]
        found.extend(Path(place, name) for name in files if name.endswith(".md") and not _is_made(name))
    return sorted(found)


def _is_made(name: str) -> bool:
    return name in MADE or name.startswith(".") or name.endswith(".egg-info")


def anchors(text: str) -> set[str]:
    """The anchors of a document, as GitHub makes them of its headings."""
    found: set[str] = set()
    for title in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"[^\w\- ]", "", LINK.sub(r"\1", title).lower()).replace(" ", "-")
        number, anchor = 0, plain
        while anchor in found:
            number += 1
            anchor = f"{plain}-{number}"
        found.add(anchor)
    return found


def dead_links(root: Path, path: Path) -> Iterator[str]:
    """Every link of a document that leads to no file, out of the checkout, or to no heading."""
    for _, target in LINK.findall(CODE.sub("", FENCE.sub("", path.read_text()))):
        if target.startswith(("https://", "http://")):
            continue
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        is_dead = not there.exists() or not there.is_relative_to(root)
        if not is_dead and anchor:
            is_dead = there.suffix != ".md" or anchor not in anchors(there.read_text())
        if is_dead:
            yield f"{path.relative_to(root)}: {target}"


def folders(package: Path) -> Iterator[str]:
    """The folders with code below a package, as the map names them."""
    for path in sorted(package.rglob("*")):
        if path.is_dir() and path.name != "__pycache__" and any(path.glob("*.py")):
            yield path.relative_to(package).as_posix()


def test_every_room_has_its_readme() -> None:
    assert {f"{room}/README.md" for room in ROOMS} <= {path.relative_to(ROOT).as_posix() for path in documents(ROOT)}


@pytest.mark.parametrize("path", documents(ROOT), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_link_between_documents_is_dead(path: Path) -> None:
    assert list(dead_links(ROOT, path)) == []


@pytest.mark.parametrize("path", documents(ROOT), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_line_of_a_document_is_too_long(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [number for number, line in enumerate(lines, 1) if len(line) > LONGEST_LINE] == []


def test_the_first_page_is_read_to_the_end() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


def test_each_room_can_be_found_from_the_first_page() -> None:
    linked = {target.partition("#")[0] for _, target in LINK.findall((ROOT / "README.md").read_text())}
    assert {f"{room}/README.md" for room in ROOMS} <= linked


def test_every_folder_of_the_package_stands_on_the_map() -> None:
    texts = [(PACKAGE / name).read_text() for name in ("README.md", "standalone/README.md")]
    missing = []
    for folder in folders(PACKAGE):
        floor = folder.removeprefix("standalone/apiserver/")
        if not any(f"- `{name}/`" in text for text in texts for name in (folder, floor)):
            missing.append(folder)
    assert missing == []


def test_every_folder_on_the_map_exists() -> None:
    exists = set(folders(PACKAGE))
    for name, above in (("README.md", ""), ("standalone/README.md", "standalone/apiserver/")):
        named = re.findall(r"^ *- `([\w/]+)/`: ", (PACKAGE / name).read_text(), re.MULTILINE)
        assert named
        assert [folder for folder in named if folder not in exists and above + folder not in exists] == []


@pytest.mark.parametrize("section", ["Words of the house", "A map of the errors"])
def test_a_class_that_contributing_tells_of_exists(section: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([A-Z]\w*[a-z]\w*)`", text))
    code = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    assert named
    assert sorted(named - set(re.findall(r"^class (\w+)", code, re.MULTILINE))) == []


@pytest.mark.parametrize(
    ("link", "is_dead"),
    [
        pytest.param("[a](room/README.md)", False, id="a file"),
        pytest.param("[a](room/README.md#what-it-costs-1)", False, id="the second heading of a name"),
        pytest.param("[a](#a-map-of-the-errors)", False, id="a heading of the same document"),
        pytest.param("[a](https://example.org/none)", False, id="another site, which is not asked"),
        pytest.param("`[a](none)`", False, id="code"),
        pytest.param("[a](room/none.md)", True, id="a file that is not there"),
        pytest.param("[a](room/README.md#what-it-costs-2)", True, id="a third heading that is not there"),
        pytest.param("[a](#in-code)", True, id="a heading that is a comment of an example"),
        pytest.param("[a](../outside.md)", True, id="a file outside the checkout"),
    ],
)
def test_a_dead_link_is_found(tmp_path: Path, link: str, is_dead: bool) -> None:
    root = tmp_path / "checkout"
    (root / "room").mkdir(parents=True)
    (tmp_path / "outside.md").touch()
    (root / "room" / "README.md").write_text("# Room\n\n## What it costs\n\n### What it `costs`!\n")
    page = root / "README.md"
    page.write_text(f"# A map of the errors\n\n```\n# In code\n```\n\n{link}\n")
    assert bool(list(dead_links(root, page))) is is_dead
