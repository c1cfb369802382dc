"""The files of the pages, and what of others is among them."""

from __future__ import annotations

import gzip
import hashlib
import re
from pathlib import Path

from kvedge.web import page_files
from kvedge.web.page_files import read_page_files

_STATIC = Path(page_files.__file__).parent / "static"
# What no page of ours does, whatever the policy says.
_MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|https?://")


def test_libraries_of_others_are_those_of_the_manifest() -> None:
    """`packaging/console/build` makes both; who changes one by hand is told here."""
    vendor = _STATIC / "vendor"
    lines = (vendor / "SHA256SUMS").read_text().splitlines()
    listed = {name: digest for digest, name in (line.split("  ") for line in lines)}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vendor.iterdir()}
    found.pop("SHA256SUMS")
    assert found == listed
    assert {"LICENSES.txt", "screen.js", "terminal.js", "terminal.css"} == set(listed)


def test_all_pages_together_stay_small() -> None:
    assert sum(len(gzip.compress(file.content)) for file in read_page_files().values()) < 256 * 1024


def test_our_own_scripts_make_no_markup_and_know_no_other_host() -> None:
    own = {name: file for name, file in read_page_files().items() if not name.startswith("vendor/")}
    assert "main.js" in own
    # The name of a vocabulary; nobody goes there.
    texts = {name: file.content.decode().replace("http://www.w3.org/2000/svg", "") for name, file in own.items()}
    found = {name: _MARKUP.findall(text) for name, text in texts.items()}
    assert {name: words for name, words in found.items() if words} == {}


def test_the_page_takes_the_nonce() -> None:
    page = read_page_files()["index.html"].with_nonce("abc")
    assert b'content="abc"' in page
    assert b"@NONCE@" not in page
