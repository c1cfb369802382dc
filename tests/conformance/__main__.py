"""`tests/conformance/run`: KubeVirt's own functional tests against a box of their own, or a cluster.

    tests/conformance/run [--cluster] [--label EXPRESSION] [--file FILE]... [--focus TEXT]... [--processes N]
                          [--keep DIRECTORY]

The test binary is KubeVirt's `tests/` built with `go test -c`; KVEDGE_TEST_KUBEVIRT says where it is. Needs root, as
the machine tests do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from dataclasses import asdict, replace  # noqa: TID251 - of dataclasses of its tests
from pathlib import Path

from tests.conformance.guests import image_prefix
from tests.conformance.host_bridges import host_bridges
from tests.conformance.http2_door import http2_door
from tests.conformance.images_provider import start_provider
from tests.conformance.known_specs import CANNOT_APPLY, NEEDS_VLANS, Place, patterns
from tests.conformance.played_front import Played, PlayedFront, handler_pod
from tests.conformance.played_jobs import PlayedJobs
from tests.conformance.played_objects import asking, node_addresses, set_up
from tests.conformance.stages import box_stage, cluster_stage, missing_for_cluster
from tests.conformance.suite import Selection, SpecResult, Target, Teller, count_processes, missing_tools, run_suite
from tests.conformance.table import counts, render, unexpected
from tests.conformance.tier_registry import tier_registry

BINARY = "KVEDGE_TEST_KUBEVIRT"


def missing(place: Place) -> str:
    """What keeps the tier from running, or nothing."""
    binary = os.environ.get(BINARY, "")
    if not binary:
        return f"{BINARY}, the path of KubeVirt's functional tests (built in its repository by: go test -c ./tests)"
    if not os.access(binary, os.X_OK):
        return f"{binary} is no program ({BINARY})"
    lacking = missing_tools("docker-registry", "skopeo")
    if place is Place.CLUSTER:
        lacking += missing_for_cluster()
    if lacking:
        return ", ".join(lacking)
    return "" if os.geteuid() == 0 else "root"


def run(selection: Selection, place: Place, processes: int, directory: Path, *, bridges: bool) -> list[SpecResult]:
    """The results of the selected specs on a server of their own, whose logs stay in `directory`.

    With `bridges` VMs that ask for masquerade get bridges instead.
    """
    told = Teller()
    make_stage = box_stage if place is Place.BOX else cluster_stage
    with (
        tempfile.TemporaryDirectory(prefix="kvedge-conformance-", dir="/var/tmp") as scratch,
        make_stage(Path(scratch), directory) as stage,
    ):
        namespace = set_up(stage.client, stage.name_server, shares=place is Place.CLUSTER)
        start_provider(stage.client, namespace, image_prefix(stage.address))
        handlers = [handler_pod(namespace, *node, stage.ipv6) for node in node_addresses(stage.client)]
        on_box = place is Place.BOX
        front = PlayedFront(
            stage.kubeconfig,
            Played(handlers, workloads=on_box, bridge_for_masquerade=bridges),
            [PlayedJobs(asking(stage.client))] if on_box else [],
        )
        with (
            tier_registry(Path(scratch) / "registry", stage.address),
            host_bridges() if on_box else contextlib.nullcontext(enter_result=False) as has_vlans,
            front,
            http2_door(directory / "door", front) as kubeconfig,
        ):
            if not has_vlans and selection.skip:
                print(f"left out: what {NEEDS_VLANS.reason}", flush=True)
                selection = replace(selection, skip=[*selection.skip, NEEDS_VLANS.pattern])
            target = Target(kubeconfig, namespace, image_prefix(stage.address), stage.storage)
            # A run that is interrupted tells what it has seen.
            with contextlib.suppress(KeyboardInterrupt):
                run_suite(Path(os.environ[BINARY]).resolve(), target, directory, selection, processes, told)
    return told.results


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs KubeVirt's own functional tests against a box or a cluster.")
    parser.add_argument("--cluster", action="store_true", help="on a cluster of this machine's, not on one box")
    parser.add_argument("--label", default="conformance", help="Ginkgo's label filter (default: conformance)")
    parser.add_argument("--focus", action="append", default=[], help="only specs whose text matches")
    parser.add_argument("--file", action="append", default=[], help="only specs of this file; FILE:LINE for one")
    parser.add_argument("--processes", type=count_processes, default=4, help="specs at a time (default: 4)")
    parser.add_argument("--all", action="store_true", help="also those of the list of what cannot apply")
    parser.add_argument("--keep", type=Path, help="where logs and results go (default: a new directory below /var/tmp)")
    parser.add_argument("--bridges", action="store_true", help="bridges in place of masquerade")
    options = parser.parse_args()
    place = Place.CLUSTER if options.cluster else Place.BOX
    if reason := missing(place):
        print(f"conformance left out: {reason}", file=sys.stderr)
        return 2
    directory = options.keep or Path(tempfile.mkdtemp(prefix="conformance-", dir="/var/tmp"))
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    skip = [] if options.all else patterns(CANNOT_APPLY, place)
    results = run(
        Selection(options.label, options.focus, options.file, skip),
        place,
        options.processes,
        directory,
        bridges=options.bridges,
    )
    (directory / "results.json").write_text(json.dumps([asdict(result) for result in results], indent=1))
    print(render(results, place))
    if options.bridges:
        print("masquerade was replaced by bridges: these are not the specs as they are")
    print(f"logs: {directory}")
    left_out = "" if options.all else f" {len(skip)} kinds of specs cannot apply: see known_specs.py."
    passed, failed, _ = counts(results)
    print(f"{passed} passed; {failed} failed, {len(unexpected(results, place))} of them for no known reason.{left_out}")
    return 1 if unexpected(results, place) or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
