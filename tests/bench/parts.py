"""The parts of a measurement: each does something on the box and reports rows."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from kvedge.cli.verbs import VERBS
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.bench.api_writes import Write, WriteCounter, total
from tests.bench.bench_guest import bench_vm, bench_vmi
from tests.bench.libvirt_loop import LibvirtLoop
from tests.bench.process_memory import control_plane, cpu_seconds, memory_of, pods_of
from tests.bench.report import Goal, Report, Row, median, percentile, spread
from tests.bench.running_watch import RunningWatch
from tests.support.box import Box

BURST_INTERVAL: Final = 0.1
# How long memory is left to settle before it is looked at.
_SETTLE_SECONDS: Final = 5.0
# Longer than each round of a role.
_IDLE_SECONDS: Final = 16.0
_RUNNING_SECONDS: Final = 120.0
# The writers whose writes KubeVirt's count has as well; kubelet and scheduler are the cluster's.
_ROLES: Final = frozenset({"kvedge-controller", "kvedge-handler", "kvedge-api"})
# A quiet second means that all of them have said what they had to say.
_QUIET_SECONDS: Final = 1.5


def measure(part: str, box: Box, options: argparse.Namespace, report: Report) -> None:
    """Measure one part; the box is started when it does not run."""
    if part != "start" and box.process is None:
        box.start()
    measures: dict[str, Callable[[Box, argparse.Namespace, Report], None]] = {
        "start": _measure_start,
        "idle": _measure_idle,
        "single": _measure_single,
        "writes": _measure_writes,
        "launcher": _measure_launcher,
        "burst": _measure_burst,
        "cli": _measure_cli,
    }
    measures[part](box, options, report)


def _measure_start(box: Box, options: argparse.Namespace, report: Report) -> None:
    first = _seconds(box.start)
    later = []
    for _ in range(options.runs):
        box.end()
        later.append(_seconds(box.start))
    report.add(Row("standalone until READY, new data directory (one run)", "s", first))
    report.add(Row("standalone until READY, later", "s", median(later)))


def _measure_idle(box: Box, _options: argparse.Namespace, report: Report) -> None:
    time.sleep(_SETTLE_SECONDS)
    used = memory_of(control_plane(_pid(box)))
    report.add(Row("control plane at 0 VMIs, PSS", "MB", used.pss, goal=Goal(110)))
    report.add(Row("control plane at 0 VMIs, unshared", "MB", used.unshared))
    before = cpu_seconds(control_plane(_pid(box)))
    time.sleep(_IDLE_SECONDS)
    spent = cpu_seconds(control_plane(_pid(box))) - before
    report.add(Row("control plane at 0 VMIs, CPU of a minute", "s", spent * 60 / _IDLE_SECONDS))


def _measure_single(box: Box, options: argparse.Namespace, report: Report) -> None:
    ours, bare, cpu = [], [], []
    with _watching(box) as watch:
        # The first one finds cold caches everywhere, and tells the reference what to start.
        document = _run_one(box, watch, "warm")[1]
        with LibvirtLoop([document]) as loop:
            for number in range(options.runs):
                before = loop.cpu_seconds()
                bare.append(loop.single())
                bare_cpu = loop.cpu_seconds() - before
                taken, _, used = _run_one(box, watch, f"single-{number}")
                ours.append(taken)
                cpu.append((*used, bare_cpu))
    report.add(Row("VMI created → Running, one VM", "s", median(ours), median(bare), Goal(ratio=2)))
    names = ("the control plane", "monitor and launcher", "QEMU")
    for index, name in enumerate(names):
        report.add(Row(f"CPU time of it: {name}", "s", median([item[index] for item in cpu])))
    report.notes.append(f"one VM: {spread(ours)} against {spread(bare)} over {len(ours)} runs each, taken in turns")


def _run_one(box: Box, watch: RunningWatch, name: str) -> tuple[float, JsonObject, tuple[float, float, float]]:
    """Seconds to Running; the VMI as it was then; CPU seconds of control plane, launcher and QEMU."""
    plane = control_plane(_pid(box))
    before = cpu_seconds(plane)
    begun = time.monotonic()
    _create(box.client, bench_vmi(name))
    running = watch.wait_running([name], _RUNNING_SECONDS)[name]
    pod = pods_of(_pid(box))[0]
    used = (cpu_seconds(plane) - before, cpu_seconds(pod.own), cpu_seconds(pod.qemu))
    document = box.client.request("GET", VirtualMachineInstance.KIND.path("default", name))
    _delete(box, watch, [name])
    return running - begun, document, used


def _measure_writes(box: Box, options: argparse.Namespace, report: Report) -> None:
    vmi, vm = [], []
    counter = WriteCounter(box.kubeconfig)
    counter.start()
    try:
        with _watching(box) as watch:
            for number in range(options.runs):
                vmi.append(_count_vmi(box, counter, watch, f"writes-{number}"))
                vm.append(_count_vm(box, counter, watch, f"writes-vm-{number}"))
    finally:
        counter.stop()
    for what, goal, counts in (("VMI", 5, vmi), ("VM", 7, vm)):
        to_running = [_by_roles(writes[0]) for writes in counts]
        settled = [_by_roles(writes[1]) for writes in counts]
        report.add(
            Row(f"API writes of the roles per {what}, created → Running", "", median(to_running), goal=Goal(goal))
        )
        report.add(Row(f"the same until nothing is written any more, per {what}", "", median(settled)))
        for line, count in _typical([writes[1] for writes in counts]):
            report.notes.append(f"per {what}: {count:g} × {line}")


def _count_vmi(box: Box, counter: WriteCounter, watch: RunningWatch, name: str) -> tuple[list[Write], list[Write]]:
    counter.clear()
    _create(box.client, bench_vmi(name, network=True))
    return _counted(box, counter, watch, name)


def _count_vm(box: Box, counter: WriteCounter, watch: RunningWatch, name: str) -> tuple[list[Write], list[Write]]:
    counter.clear()
    box.client.request("POST", VirtualMachine.KIND.path("default"), bench_vm(name))
    return _counted(box, counter, watch, name, vm=True)


def _counted(
    box: Box, counter: WriteCounter, watch: RunningWatch, name: str, *, vm: bool = False
) -> tuple[list[Write], list[Write]]:
    """What was written until the VMI was Running, that write included, and until all was quiet."""
    watch.wait_running([name], _RUNNING_SECONDS)
    # The watches of the kinds are told each by itself: the order in which they were written is not known to the
    # millisecond, but the one that made it Running is.
    end = counter.seen(_made_running, _RUNNING_SECONDS).moment
    writes = counter.settled(_QUIET_SECONDS, 20)
    if vm:
        box.client.delete(VirtualMachine, "default", name)
        watch.wait_gone([name], _RUNNING_SECONDS)
    else:
        _delete(box, watch, [name])
    counter.settled(_QUIET_SECONDS, 20)
    return [item for item in writes if item.moment <= end], writes


def _made_running(write: Write) -> bool:
    return write.kind == VirtualMachineInstance.KIND.plural and write.change == "to Running"


def _by_roles(writes: list[Write]) -> float:
    return float(sum(1 for item in writes if _ROLES.intersection(item.writer.split(" or "))))


def _typical(counts: list[list[Write]]) -> Iterator[tuple[str, float]]:
    """Each kind of write with its median number, in the order in which they come."""
    order = dict.fromkeys(str(item) for writes in counts for item in writes)
    totals: list[Counter[str]] = [total(writes) for writes in counts]
    for line in order:
        count = median([found[line] for found in totals])
        if count:
            yield line, count


def _measure_launcher(box: Box, _options: argparse.Namespace, report: Report) -> None:
    with _watching(box) as watch:
        _create(box.client, bench_vmi("alone"))
        watch.wait_running(["alone"], _RUNNING_SECONDS)
        time.sleep(_SETTLE_SECONDS)
        pod = pods_of(_pid(box))[0]
        used = memory_of(pod.own)
        report.add(Row("per VM beyond guest and QEMU, the only VM, PSS", "MB", used.pss, goal=Goal(35)))
        report.add(Row("per VM beyond guest and QEMU, the only VM, unshared", "MB", used.unshared))
        for process in pod.own:
            words = [word for word in process.cmdline() if word in ("launcher", "--monitor", "infinity")]
            one = memory_of([process])
            report.notes.append(
                f"only VM: {process.name()} {' '.join(words)}: PSS {one.pss:.1f}, unshared {one.unshared:.1f} MB"
            )
        _delete(box, watch, ["alone"])
    others = sum(1 for pid in os.listdir("/proc") if pid.isdigit() and _is_launcher(pid))
    report.notes.append(f"{others} other kvedge launchers on this machine meanwhile (they share libraries with ours)")


def _is_launcher(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"launcher" in words and b"kvedge" in words


def _measure_burst(box: Box, options: argparse.Namespace, report: Report) -> None:
    count = options.vmis
    names = [f"burst-{number:03}" for number in range(count)]
    with _watching(box) as watch:
        document = _run_one(box, watch, "warm")[1]
        plane = control_plane(_pid(box))
        before = cpu_seconds(plane)
        ours = _burst(box, watch, names)
        pods = pods_of(_pid(box))
        cpu = [(cpu_seconds(plane) - before) / count]
        cpu += [cpu_seconds(process for pod in pods for process in pod.own) / count]
        cpu += [cpu_seconds(process for pod in pods for process in pod.qemu) / count]
        time.sleep(_SETTLE_SECONDS)
        _report_burst_memory(box, count, report)
        _delete(box, watch, names)
    bare, bare_cpu = _bare_burst(document, names)
    label = f"{count} VMIs, one each 100 ms: created → Running"
    for percent, most in ((50, 3.0), (95, 6.0)):
        pair = percentile(ours, percent), percentile(bare, percent)
        report.add(Row(f"{label}, p{percent}", "s", *pair, Goal(most, ratio=2)))
        if pair[1] > most:
            report.notes.append(f"bare libvirt misses the {most:g} s of p{percent} on this machine: the ratio counts")
    parts = "control plane", "monitor and launcher", "QEMU"
    told = ", ".join(f"{name} {1000 * value:.0f} ms" for name, value in zip(parts, cpu, strict=True))
    report.add(Row("CPU time per VMI of the burst", "s", sum(cpu), bare_cpu / count))
    report.notes.append(
        f"CPU time per VMI of the burst: {told}; bare libvirt with QEMU {1000 * bare_cpu / count:.0f} ms"
    )


def _burst(box: Box, watch: RunningWatch, names: list[str]) -> list[float]:
    begun = time.monotonic()

    def create(index: int) -> None:
        time.sleep(max(0.0, begun + index * BURST_INTERVAL - time.monotonic()))
        _create(box.client, bench_vmi(names[index]))

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(create, range(len(names))))
    running = watch.wait_running(names, 3 * _RUNNING_SECONDS)
    return [running[name] - begun - index * BURST_INTERVAL for index, name in enumerate(names)]


def _report_burst_memory(box: Box, count: int, report: Report) -> None:
    used = memory_of(control_plane(_pid(box)))
    report.add(Row(f"control plane at {count} VMIs, PSS", "MB", used.pss, goal=Goal(160)))
    report.add(Row(f"control plane at {count} VMIs, unshared", "MB", used.unshared))
    each = [memory_of(pod.own) for pod in pods_of(_pid(box))]
    pss, unshared = [item.pss for item in each], [item.unshared for item in each]
    report.add(Row(f"per VM beyond guest and QEMU, one of {count}, PSS", "MB", median(pss), goal=Goal(35)))
    report.add(Row(f"per VM beyond guest and QEMU, one of {count}, unshared", "MB", median(unshared)))


def _bare_burst(document: JsonObject, names: list[str]) -> tuple[list[float], float]:
    documents = []
    for number, name in enumerate(names):
        meta = {**document["metadata"], "name": name, "uid": f"00000000-0000-4000-8000-{number:012}"}
        spec = document["spec"]
        # Each has its own UUID, as each VMI has.
        firmware = {**spec["domain"].get("firmware", {}), "uuid": meta["uid"]}
        documents.append(
            {**document, "metadata": meta, "spec": {**spec, "domain": {**spec["domain"], "firmware": firmware}}}
        )
    with LibvirtLoop(documents) as loop:
        before = loop.cpu_seconds()
        taken = loop.burst(BURST_INTERVAL)
        used = loop.cpu_seconds() - before
        loop.destroy()
    return taken, used


def _measure_cli(box: Box, options: argparse.Namespace, report: Report) -> None:
    runs = options.runs
    environment = {**os.environ, "KUBECONFIG": str(box.kubeconfig)}

    def timed(command: list[str]) -> float:
        def run() -> None:
            _quiet(command, environment)

        run()
        return median([_seconds(run) for _ in range(runs)])

    bare = timed([sys.executable, "-c", "pass"])
    report.add(
        Row(
            "kvedge version, warm (reference: the bare interpreter)",
            "s",
            timed(box.command("version")),
            bare,
            Goal(0.15),
        )
    )
    report.add(Row("kvedge version --client, warm", "s", timed(box.command("version", "--client")), bare, Goal(0.15)))
    report.add(Row("kvedge --help", "s", timed(box.command("--help")), bare, Goal(0.25)))
    # One look at each verb finds the slowest; its median is what counts.
    looks = {verb: _seconds(lambda verb=verb: _quiet(box.command(verb, "--help"), environment)) for verb in VERBS}
    slowest = max(looks, key=lambda verb: looks[verb])
    help_seconds = timed(box.command(slowest, "--help"))
    report.add(Row(f"kvedge {slowest} --help, the slowest of all verbs", "s", help_seconds, bare, Goal(0.25)))
    report.add(Row("kvedge list", "s", timed(box.command("list")), bare))
    report.add(Row("kvedge get vm", "s", timed(box.command("get", "vm")), bare))


def _quiet(command: list[str], environment: dict[str, str]) -> None:
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd="/")


@contextmanager
def _watching(box: Box) -> Iterator[RunningWatch]:
    watch = RunningWatch(box.client)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()


def _create(client: KubeClient, document: JsonObject) -> None:
    client.request("POST", VirtualMachineInstance.KIND.path("default"), document)


def _delete(box: Box, watch: RunningWatch, names: list[str]) -> None:
    """Delete VMIs and wait until they and their processes are gone."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: box.client.delete(VirtualMachineInstance, "default", name), names))
    watch.wait_gone(names, _RUNNING_SECONDS)
    deadline = time.monotonic() + _RUNNING_SECONDS
    while pods_of(_pid(box)):
        if time.monotonic() > deadline:
            raise TimeoutError("launchers are left of VMIs that are gone")
        time.sleep(0.05)


def _pid(box: Box) -> int:
    assert box.process is not None
    return box.process.pid


def _seconds(work: Callable[[], object]) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun
