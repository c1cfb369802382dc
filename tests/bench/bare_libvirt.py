"""The reference: libvirt, QEMU and nothing else. A program of its own, as a process has one embedded driver at most,
and in a mount namespace of its own: see `distribution_user`.

Reads one JSON document from standard input: `root` (an empty directory) and `vmis` (VMIs as an API server has them).
Renders the domain documents that a launcher would render for them, opens the embedded driver once, starts one domain so
that libvirt has probed QEMU and everything is cached, and then takes commands, one a line, each answered by a line of
JSON:

    single            start the first domain and destroy it: seconds of the start
    burst INTERVAL    start all domains, one each INTERVAL seconds, each in a thread of its own: for each the seconds
                      from its turn until it runs
    attach PATH RUNS  attach and detach a raw image as a SCSI disk of the first domain, so often: seconds of each attach
    cpu               seconds of CPU that this process and its QEMUs have taken so far
    destroy           destroy all domains
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import libvirt
import psutil

from kvedge.launcher.disks.vmi_preparation import VmiPreparation
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.libvirt.libvirt_setup import prepare_environment, prepare_root
from kvedge.rpc.launcher_pb2 import NodeOptions, SyncRequest
from tests.bench.process_memory import cpu_seconds
from tests.support.distribution_user import know_the_distributions_user


def main() -> None:
    """Serve until standard input ends."""
    order = json.loads(sys.stdin.readline())
    os.umask(0o077)
    documents = [_document(vmi, order["root"]) for vmi in order["vmis"]]
    connection = _open(_options(order["vmis"][0], order["root"]))
    try:
        _single(connection, documents[0])
        _answer("ready")
        for line in sys.stdin:
            _answer(_obey(connection, documents, line.split()))
    finally:
        _destroy_all(connection)


def _obey(connection: libvirt.virConnect, documents: list[str], words: list[str]) -> Any:
    match words:
        case ["single"]:
            return _single(connection, documents[0])
        case ["burst", interval]:
            return _burst(connection, documents, float(interval))
        case ["attach", path, runs]:
            return _attach(connection, documents[0], path, int(runs))
        case ["cpu"]:
            me = psutil.Process()
            return cpu_seconds([me, *me.children(recursive=True), *_qemus(connection)])
        case ["destroy"]:
            return _destroy_all(connection)
    raise ValueError(f"unknown command {words}")


def _answer(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def _options(vmi: dict[str, Any], root: str) -> LauncherOptions:
    meta = vmi["metadata"]
    return LauncherOptions(namespace=meta["namespace"], name=meta["name"], uid=meta["uid"], root=root)


def _document(vmi: dict[str, Any], root: str) -> str:
    """What a launcher defines for this VMI, with the sockets beneath our own directory."""
    options = _options(vmi, root)
    os.makedirs(options.run_directory, exist_ok=True)
    request = SyncRequest(vmi_json=json.dumps(vmi).encode(), options=NodeOptions(emulation=True))
    return VmiPreparation(options, libvirt.getVersion()).prepare(request).xml


def _open(options: LauncherOptions) -> libvirt.virConnect:
    prepare_environment(options, os.environ)
    prepare_root(options)
    know_the_distributions_user(Path(options.libvirt_root))
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    libvirt.virEventRegisterDefaultImpl()
    threading.Thread(target=_run_events, name="libvirt-events", daemon=True).start()
    return libvirt.open(f"qemu:///embed?root={options.libvirt_root}")


def _run_events() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def _single(connection: libvirt.virConnect, document: str) -> float:
    begun = time.monotonic()
    domain = connection.createXML(document)
    taken = time.monotonic() - begun
    domain.destroy()
    return taken


def _attach(connection: libvirt.virConnect, document: str, path: str, runs: int) -> list[float]:
    disk = f"""<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="{path}"/>
        <target dev="sdz" bus="scsi"/><serial>bench</serial></disk>"""
    domain, taken = connection.createXML(document), []
    for _ in range(runs):
        begun = time.monotonic()
        domain.attachDevice(disk)
        taken.append(time.monotonic() - begun)
        # Of a SCSI disk QEMU lets go without its guest; libvirt waits for it.
        domain.detachDevice(disk)
    domain.destroy()
    return taken


def _burst(connection: libvirt.virConnect, documents: list[str], interval: float) -> list[float]:
    begun = time.monotonic()

    def start(index: int) -> float:
        turn = begun + index * interval
        time.sleep(max(0.0, turn - time.monotonic()))
        connection.createXML(documents[index])
        return time.monotonic() - turn

    with ThreadPoolExecutor(len(documents)) as pool:
        return list(pool.map(start, range(len(documents))))


def _qemus(connection: libvirt.virConnect) -> list[psutil.Process]:
    """libvirt makes daemons of its QEMUs: they are no children of ours."""
    root = connection.getURI().partition("root=")[2]
    found = []
    for process in psutil.process_iter(["name", "cmdline"]):
        # Of a process that ends meanwhile psutil knows no command line.
        words = process.info["cmdline"] or ()
        if process.info["name"].startswith("qemu-system") and any(root in word for word in words):
            found.append(process)
    return found


def _destroy_all(connection: libvirt.virConnect) -> int:
    domains = connection.listAllDomains()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda domain: domain.destroy(), domains))
    return len(domains)


if __name__ == "__main__":
    main()
