"""axe-core's judgement of a page, injected over the debugging protocol: the page's policy stays as it is.

Used by the tests of this tier. axe-core comes by packaging/console's lock, and is no part of the program.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

from tests.support.chromium import Page

_CONSOLE = Path(__file__).parents[2] / "packaging" / "console"
_RUN = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations.map((fault) => [
  fault.id, fault.impact, fault.help, fault.nodes.map((node) => node.html.slice(0, 200))]))"""


def fetch_axe(directory: Path) -> str | None:
    """axe-core's text, as npm has what the lock names; None without npm."""
    given = os.environ.get("KVEDGE_TEST_AXE")
    if given:
        return Path(given).read_text()
    npm = shutil.which("npm")
    if npm is None:
        return None
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_CONSOLE / name, directory)
    command = [npm, "ci", "--no-audit", "--no-fund", "--silent", "--ignore-scripts", "--prefer-offline"]
    subprocess.run(command, cwd=directory, check=True, timeout=300)
    return (directory / "node_modules" / "axe-core" / "axe.min.js").read_text()


async def findings(page: Page, axe: str) -> list[str]:
    """What axe-core finds fault with on the page as it is now, in words."""
    if not await page.evaluate("typeof axe === 'object'"):
        await page.evaluate(f"{axe}\n;0")
    return [json.dumps(fault) for fault in await page.evaluate(_RUN)]
