"""`tests/conformance/run_cdi`: CDI's own functional tests against a box of their own.

    tests/conformance/run_cdi [--file FILE]... [--focus TEXT]... [--processes N] [--keep DIRECTORY] [--all]

KVEDGE_TEST_CDI names a checkout of CDI in which its tests are built (tests/conformance/README.md). Needs root, as the
machine tests do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict  # noqa: TID251 - of dataclasses of its tests
from pathlib import Path
from typing import Final

from tests.conformance.cdi.file_host import file_host
from tests.conformance.cdi.images import made_images
from tests.conformance.cdi.known_specs import CANNOT_APPLY
from tests.conformance.cdi.played_cdi import NAMESPACE, PlayedCdi, controller_pod
from tests.conformance.cdi.registry_host import REGISTRY, registry_host
from tests.conformance.guests import TAG, image_prefix
from tests.conformance.http2_door import http2_door
from tests.conformance.job_image import PROGRAMS, write_job_image
from tests.conformance.known_specs import Place, patterns
from tests.conformance.played_front import Played, PlayedFront
from tests.conformance.played_objects import asking
from tests.conformance.suite import (
    Selection,
    SpecResult,
    Teller,
    count_processes,
    found_tool,
    missing_tools,
    run_binary,
)
from tests.conformance.table import counts, render
from tests.support.box import Box

CHECKOUT: Final = "KVEDGE_TEST_CDI"
_BINARY: Final = "tests/tests.test"
_NEEDED: Final = ("docker-registry", "skopeo", "kubectl", "qemu-img", "xz", "zstd")
# No other test of this machine has these addresses. The first one is the node bridge's.
_POD_CIDR: Final = "10.93.129.0/24"
_NODE_BRIDGE: Final = "10.93.129.1"
# What busybox has not, or otherwise.
_TOOLS: Final = {f"/usr/bin/{name}": f"bin/{name}" for name in ("cut", "du", "ls", "qemu-img", "stat", "tr")}
# Some commands of the tests are bash's.
_SHELL: Final = {"/usr/bin/bash": "bin/sh"}


def missing() -> str:
    """What keeps the tier from running, or nothing."""
    checkout = os.environ.get(CHECKOUT, "")
    if not checkout:
        return f"{CHECKOUT}, a checkout of CDI in which its tests are built (tests/conformance/README.md says how)"
    if not os.access(Path(checkout, _BINARY), os.X_OK):
        return f"{Path(checkout, _BINARY)} is no program ({CHECKOUT})"
    if lacking := missing_tools(*_NEEDED):
        return ", ".join(lacking)
    return "" if os.geteuid() == 0 else "root"


@contextlib.contextmanager
def _box(scratch: Path, directory: Path, image: str) -> Iterator[Box]:
    box = Box(scratch / "data", _POD_CIDR, log_level="info")
    box.data_dir.mkdir()
    try:
        archive = scratch / "image.tar"
        write_job_image(archive, image, PROGRAMS | _TOOLS | _SHELL)
        box.import_image(archive, image)
        box.start()
        yield box
    finally:
        if box.log.exists():
            (directory / "standalone.log").write_bytes(box.log.read_bytes())
        box.remove()


def _write_manifests(source: Path, target: Path) -> None:
    """The tests' manifests, and below `out/` those that CDI's build makes of templates."""
    shutil.copytree(source, target)
    (target / "out").mkdir()
    for template in (source / "templates").glob("*.in"):
        text = template.read_text().replace("{{ .Namespace }}", NAMESPACE)
        (target / "out" / template.stem).write_text(text)


def run(selection: Selection, processes: int, directory: Path) -> list[SpecResult]:
    """The results of the selected specs on a box of their own, whose logs stay in `directory`."""
    teller = Teller()
    checkout = Path(os.environ[CHECKOUT]).resolve()
    image = f"{image_prefix(_NODE_BRIDGE)}/cdi-importer:{TAG}"
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kvedge-cdi-", dir="/var/tmp")))
        images, work = made_images(checkout), scratch / "work"
        work.mkdir()
        (work / "images").symlink_to(images)
        _write_manifests(checkout / "tests/manifests", work / "manifests")
        client = stack.enter_context(_box(scratch, directory, image)).client
        client.request(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        client.request("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", controller_pod(image))
        stack.enter_context(file_host(scratch / "file-host", images, _NODE_BRIDGE, client))
        stack.enter_context(registry_host(scratch / "registry", images, _NODE_BRIDGE, client))
        front = PlayedFront(scratch / "data/kubeconfig", Played(pods_once=True), [PlayedCdi(asking(client))])
        stack.enter_context(front)
        kubeconfig = stack.enter_context(http2_door(scratch / "door", front))
        arguments = [
            f"-kubeconfig={kubeconfig}",
            f"-kubectl-path={found_tool('kubectl')}",
            f"-cdi-namespace={NAMESPACE}",
            f"-docker-prefix={REGISTRY}",
            f"-docker-tag={TAG}",
            "-snapshot-sc=kvedge",
            "-block-sc=kvedge",
            *selection.arguments,
        ]
        with contextlib.suppress(KeyboardInterrupt):
            variables = {"TESTS_WORKDIR": str(work)}
            run_binary([str(checkout / _BINARY), *arguments], variables, directory, processes, teller)
    return teller.results


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs CDI's own functional tests against a box.")
    parser.add_argument("--focus", action="append", default=[], help="only specs whose text matches")
    parser.add_argument("--file", action="append", default=[], help="only specs of this file; FILE:LINE for one")
    parser.add_argument("--processes", type=count_processes, default=4, help="specs at a time (default: 4)")
    parser.add_argument("--all", action="store_true", help="also those of the list of what cannot apply")
    parser.add_argument("--keep", type=Path, help="where logs and results go (default: a new directory below /var/tmp)")
    options = parser.parse_args()
    if reason := missing():
        print(f"CDI's tests left out: {reason}", file=sys.stderr)
        return 2
    directory = (options.keep or Path(tempfile.mkdtemp(prefix="conformance-cdi-", dir="/var/tmp"))).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    skip = [] if options.all else patterns(CANNOT_APPLY, Place.BOX)
    results = run(Selection("", options.focus, options.file, skip), options.processes, directory)
    (directory / "results.json").write_text(json.dumps([asdict(result) for result in results], indent=1))
    print(render(results, Place.BOX))
    passed, failed, _ = counts(results)
    print(f"logs: {directory}\n{passed} passed; {failed} failed.")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
