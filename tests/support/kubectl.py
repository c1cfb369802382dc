"""kubectl, as the distribution packages it and as the Kubernetes project builds it: both unmodified.

Used by the contract tests. Downloads the distribution's package into the tests' cache without installing it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.guest import cache_directory

PACKAGE = "kubernetes-client"


def distribution_kubectl() -> Path | None:
    """Debian's kubectl (1.20 in Debian 12), or None where the distribution has none."""
    target = cache_directory() / PACKAGE / "usr" / "bin" / "kubectl"
    if target.exists():
        return target
    known = subprocess.run(["apt-cache", "show", PACKAGE], capture_output=True, text=True, check=False)
    if known.returncode != 0 or not re.search(r"^Version:", known.stdout, re.MULTILINE):
        return None
    target.parents[2].parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parents[2].parent) as scratch:
        # apt drops to a user that may not write here, and then downloads as the caller.
        download = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", PACKAGE]
        subprocess.run(download, cwd=scratch, capture_output=True, check=True)
        (archive,) = Path(scratch).glob("*.deb")
        subprocess.run(["dpkg", "-x", str(archive), f"{scratch}/root"], check=True)
        Path(scratch, "root").rename(target.parents[2])
    return target


def current_kubectl() -> Path | None:
    """The newest one at hand: where the control plane's binaries are, else on the PATH."""
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin"), "kubectl")
    if assets.is_file():
        return assets
    found = shutil.which("kubectl")
    return Path(found) if found else None
