"""What guests of this node run on, under the configuration in force: accelerator, firmware, what SMBIOS shows.

A service of the handler role. What the operator of this node has set wins over the KubeVirt object, and the object over
what the node found out by itself. When the object changes the accelerator, QEMU is probed anew, in a thread of its own;
only then new guests start on it, and the Node says so. Running guests stay on what they have.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from kvedge.handler.node.capability_seed import ProbeError, ensure_seed
from kvedge.handler.node.kvm_check import Accelerator
from kvedge.handler.node.node_manifest import NodeCapabilities
from kvedge.kube.figures.process_figures import note_deprecated_machines
from kvedge.resources.configuration.configuration import Configuration
from kvedge.rpc.launcher_pb2 import NodeOptions
from kvedge.runtime.architecture import host_architecture
from kvedge.runtime.background import BackgroundThread

log = logging.getLogger(__name__)

_ASKED_FOR: Final = Accelerator(True, "software emulation, as the KubeVirt object asks for (useEmulation)")
_RETRY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 5.0


class OwnAccelerator(Struct, frozen=True):
    """What the node itself has for guests, and whether its operator has said so."""

    accelerator: Accelerator
    is_set: bool = False


def choose(own: OwnAccelerator, configuration: Configuration) -> Accelerator:
    """What guests run on."""
    if own.is_set or own.accelerator.emulation or not configuration.use_emulation:
        return own.accelerator
    return _ASKED_FOR


class NodePlatform:
    """The accelerator and all else that a launcher is told of its node."""

    name = "platform"

    def __init__(self, own: OwnAccelerator, seed: Path, configuration: Callable[[], Configuration]) -> None:
        """`seed` is the directory of libvirt's capabilities; `configuration` the one in force."""
        self._own = own
        self._seed = seed
        self._configuration = configuration
        self._now: tuple[Accelerator, NodeCapabilities] | None = None
        self._callbacks: list[Callable[[], None]] = []
        # The offer that the callbacks were last told of.
        self._told: object = None
        self._changed = threading.Event()
        self._stopping = False
        self._thread = BackgroundThread("node-platform", self._run)

    def prepare(self) -> None:
        """Probe for the accelerator that is wanted now.

        Raises:
            ProbeError: when the host's libvirt or QEMU cannot be used.
        """
        self._probe(choose(self._own, self._configuration()))

    def start(self) -> None:
        """Follow the configuration."""
        self._told = self.accelerator, self._configuration().obsolete_cpu_models
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a probe that is under way ends by its own deadline."""
        self._stopping = True
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def failure(self) -> str | None:
        """A probe that fails is tried again, and what was there before stays; only a thread that is no more tells."""
        return self._thread.failure()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call after what the node offers changed; set up before :meth:`start`."""
        self._callbacks.append(callback)

    def note_configuration_change(self) -> None:
        """Look whether the node offers what is wanted now; returns at once."""
        self._changed.set()

    @property
    def accelerator(self) -> Accelerator:
        """What new guests run on."""
        return self._findings()[0]

    @property
    def capabilities(self) -> NodeCapabilities:
        """What QEMU can do with it, without what the cluster wants no VM to use."""
        known, obsolete = self._findings()[1], self._configuration().obsolete_cpu_models
        return msgspec.structs.replace(
            known,
            cpu_models=[model for model in known.cpu_models if model not in obsolete],
            known_models=[model for model in known.known_models if model not in obsolete],
            is_obsolete=known.host_cpu_model in obsolete,
        )

    def options(self) -> NodeOptions:
        """The facts of this node that a launcher gets when it starts a guest."""
        configuration = self._configuration()
        smbios = configuration.smbios
        return NodeOptions(
            emulation=self.accelerator.emulation,
            smbios_family=smbios.family,
            smbios_manufacturer=smbios.manufacturer,
            smbios_product=smbios.product,
            smbios_version=smbios.version,
            smbios_sku=smbios.sku,
            ovmf_path=configuration.ovmf_paths.get(host_architecture(), ""),
            keep_free_pages=not configuration.free_page_reporting,
            balloon_stats_seconds=configuration.balloon_stats_seconds,
        )

    def _findings(self) -> tuple[Accelerator, NodeCapabilities]:
        assert self._now is not None, "not prepared"
        return self._now

    def _probe(self, wanted: Accelerator) -> None:
        found = ensure_seed(self._seed, emulation=wanted.emulation)
        self._now = wanted, found
        note_deprecated_machines(found.deprecated_machines)
        log.info("accelerator chosen", extra={"facts": {"accelerator": wanted.detail}})

    def _run(self) -> None:
        wait: float | None = None
        # The failure that ended the work before may have hidden a change.
        self._changed.set()
        while True:
            self._changed.wait(wait)
            if self._stopping:
                return
            self._changed.clear()
            wait = None
            wanted = choose(self._own, self._configuration())
            offered = wanted, self._configuration().obsolete_cpu_models
            if offered == self._told:
                continue
            try:
                if wanted != self.accelerator:
                    self._probe(wanted)
            except ProbeError as error:
                log.warning("accelerator not changed", extra={"facts": {"detail": str(error)}})
                wait = _RETRY_SECONDS
                continue
            for callback in self._callbacks:
                callback()
            self._told = offered
