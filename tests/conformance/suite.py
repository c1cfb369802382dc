"""Runs KubeVirt's test binary: several processes of one suite, whose specs are told one by one.

Called by the conformance run. The binary comes from outside (KVEDGE_TEST_KUBEVIRT); its processes write below one
directory and are ended with the run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.conformance.guests import TAG
from tests.conformance.spec_server import SpecServer

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m|\{\{[^{}]*\}\}")
# Lines of Gomega's that stand before the one that says what is wrong, and those of them that it goes on from.
_SAYS_NOTHING: Final = re.compile(r"Unexpected error:|<[^>]*>:?|Timed out after|Expected|\{")
_GOES_ON: Final = ("Timed out after", "Expected")
_LONGEST: Final = 200
# In which of Debian's packages a program is, where that has another name.
_PACKAGES: Final = {"kubectl": "kubernetes-client", "qemu-img": "qemu-utils", "xz": "xz-utils"}
# Ginkgo's processes tell a server of their specs where there is more than one.
_FEWEST: Final = 2
# A suite's own end, when nothing else ends it.
_HOURS: Final = 6


@dataclass(frozen=True)
class SpecResult:
    """How one spec went."""

    name: str
    file: str
    line: int
    state: str
    seconds: float
    failure: str = ""

    @property
    def is_failed(self) -> bool:
        """Whether it ran and did not pass, for whatever reason."""
        return self.state not in ("passed", "skipped")


@dataclass(frozen=True)
class Target:
    """What the binary runs against: a server, the namespace of its KubeVirt object, and where its images are."""

    kubeconfig: Path
    namespace: str
    image_prefix: str
    # What the specs' claims ask for, by the words of the tests' own configuration.
    storage: Mapping[str, str]


@dataclass(frozen=True)
class Selection:
    """Which specs run."""

    labels: str = ""
    focus: Sequence[str] = ()
    files: Sequence[str] = ()
    skip: Sequence[str] = ()

    @property
    def arguments(self) -> list[str]:
        """For the binary."""
        found = [f"-ginkgo.label-filter={self.labels}"] if self.labels else []
        found += [f"-ginkgo.focus={text}" for text in self.focus]
        found += [f"-ginkgo.focus-file={file}" for file in self.files]
        return found + [f"-ginkgo.skip={text}" for text in self.skip]


def result_of(report: dict[str, Any]) -> SpecResult | None:
    """A spec's result out of Ginkgo's report; None for set-up that went well, and for what was not selected."""
    state, failure = report["State"], failure_text(report)
    if report["LeafNodeType"] != "It" and state in ("passed", "skipped"):
        return None
    # What was not selected, and what KubeVirt itself has put aside.
    if state == "pending" or (state == "skipped" and not failure):
        return None
    texts = [*(report.get("ContainerHierarchyTexts") or []), report.get("LeafNodeText") or report["LeafNodeType"]]
    location = report["LeafNodeLocation"]
    return SpecResult(
        name=" ".join(text.strip() for text in texts),
        file=location["FileName"].partition("/tests/")[2] or location["FileName"],
        line=location.get("LineNumber", 0),
        state=state,
        seconds=report.get("RunTime", 0) / 1e9,
        failure=first_line(failure),
    )


def failure_text(report: dict[str, Any]) -> str:
    """All that a spec's failure says."""
    failure = report.get("Failure") or {}
    panic = failure.get("ForwardedPanic")
    return f"{failure.get('Message') or ''}" + (f": {panic}" if panic else "")


def first_line(text: str) -> str:
    """The first line of a failure that tells something, cut: some begin with words that all failures share."""
    lines = [line.strip() for line in _COLOURS.sub("", text).splitlines()]
    telling = [line for line in lines if line and not _SAYS_NOTHING.fullmatch(line)]
    begin = next((line for line in lines if line in _GOES_ON), "")
    return " ".join([*([begin] if begin else []), *telling[:1]])[:_LONGEST]


class Teller:
    """Keeps the results of a run, and prints each as it comes."""

    def __init__(self) -> None:
        self.results: list[SpecResult] = []
        self._begun = time.monotonic()

    def __call__(self, result: SpecResult) -> None:
        self.results.append(result)
        failure = f": {result.failure}" if result.is_failed else ""
        minutes = (time.monotonic() - self._begun) / 60
        print(
            f"[{minutes:5.1f}] {result.state} {result.file}:{result.line} {result.seconds:.0f} s{failure}", flush=True
        )


def run_suite(
    binary: Path,
    target: Target,
    directory: Path,
    selection: Selection,
    processes: int,
    told: Callable[[SpecResult], None],
) -> int:
    """Run the selected specs; the number of processes that failed. `told` hears of each spec as it ends."""
    (directory / "config.json").write_text(json.dumps(dict(target.storage)))
    # What fails is told by the specs themselves; collecting a cluster's logs after each would take longer than they do.
    arguments = [str(binary), *_arguments(target, directory, selection)]
    return run_binary(arguments, {"REPORTER_MAX_FAILS": "-1"}, directory, processes, told)


def count_processes(text: str) -> int:
    """How many a command line asks for: a suite of one process tells nobody how its specs went.

    Raises:
        argparse.ArgumentTypeError: for fewer than two.
    """
    if not text.isdecimal() or int(text) < _FEWEST:
        raise argparse.ArgumentTypeError(f"{text!r}: name {_FEWEST} or more")
    return int(text)


def run_binary(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    directory: Path,
    processes: int,
    told: Callable[[SpecResult], None],
) -> int:
    """Run a test binary of Ginkgo's as several processes; the number of those that failed.

    `variables` join the environment. `told` hears of each spec as it ends; logs go below `directory`.
    """

    def hear(report: dict[str, Any]) -> None:
        keep_output(directory, report)
        if (result := result_of(report)) is not None:
            told(result)

    timed = [*arguments, f"-test.timeout={_HOURS}h", f"-ginkgo.timeout={_HOURS}h", "-ginkgo.no-color"]
    with SpecServer(hear) as server:
        running = [
            _start([*timed, "-ginkgo.seed=1"], variables, directory, number, processes, server.address)
            for number in range(1, processes + 1)
        ]
        server.watch([_alive(process) for process in running])
        try:
            return sum(process.wait() != 0 for process in running)
        finally:
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def found_tool(name: str) -> str:
    """Where a tool of a cluster's users is: among the control plane's binaries, else on the PATH; else nothing."""
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", "/usr/local/kubebuilder/bin"), name)
    return str(assets) if assets.is_file() else shutil.which(name) or ""


def missing_tools(*names: str) -> list[str]:
    """Those programs that this machine lacks, each with the package that brings it."""
    return [f"{name} (apt-get install {_PACKAGES.get(name, name)})" for name in names if not found_tool(name)]


def keep_output(directory: Path, report: dict[str, Any]) -> None:
    """Keep what a failed spec wrote, by its file and line."""
    if report["State"] in ("passed", "skipped", "pending"):
        return
    location = report["LeafNodeLocation"]
    name = f"{Path(location['FileName']).stem}-{location.get('LineNumber', 0)}.log"
    written = report.get("CapturedGinkgoWriterOutput", "") + report.get("CapturedStdOutErr", "")
    with (directory / name).open("a") as file:
        file.write(f"== {report['LeafNodeText']}\n{written}\n{failure_text(report)}\n")


def _arguments(target: Target, directory: Path, selection: Selection) -> list[str]:
    return [
        f"-kubeconfig={target.kubeconfig}",
        # Process 1 would look for it by itself, and tell the others nothing.
        f"-installed-namespace={target.namespace}",
        f"-config={directory / 'config.json'}",
        f"-artifacts={directory / 'artifacts'}",
        *(f"-{tool}-path={path}" for tool in ("kubectl", "virtctl") if (path := found_tool(tool))),
        f"-container-prefix={target.image_prefix}",
        f"-container-tag={TAG}",
        *selection.arguments,
    ]


def _start(
    arguments: list[str], variables: Mapping[str, str], directory: Path, number: int, total: int, host: str
) -> subprocess.Popen[bytes]:
    parallel = [f"-ginkgo.parallel.process={number}", f"-ginkgo.parallel.total={total}"]
    parallel += [f"-ginkgo.parallel.host={host}"] if total > 1 else []
    environment = {**os.environ, **variables, "GINKGO_PARALLEL_PROTOCOL": "HTTP"}
    with (directory / f"process-{number}.log").open("wb") as log:
        return subprocess.Popen(
            [*arguments, *parallel],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def _alive(process: subprocess.Popen[bytes]) -> Callable[[], bool]:
    return lambda: process.poll() is None
