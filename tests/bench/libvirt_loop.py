"""Our end of the reference program `bare_libvirt`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kvedge.resources.codec import JsonObject

_REPOSITORY = Path(__file__).parents[2]


class LibvirtLoop:
    """A bare libvirt that can start the domains of these VMIs."""

    def __init__(self, vmis: Sequence[JsonObject]) -> None:
        # Short: sockets beneath it must keep to 107 bytes.
        self._root = tempfile.mkdtemp(prefix="kvbare-", dir="/tmp")
        self._process = subprocess.Popen(
            ["unshare", "--mount", sys.executable, "-m", "tests.bench.bare_libvirt"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_REPOSITORY,
            # libvirt reads it when it is loaded; it warns of each domain that QEMU runs as root.
            env={**os.environ, "LIBVIRT_LOG_OUTPUTS": "4:stderr"},
            start_new_session=True,
        )
        self._send(json.dumps({"root": self._root, "vmis": list(vmis)}))

    def __enter__(self) -> Self:
        self._receive()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()
            shutil.rmtree(self._root, ignore_errors=True)

    def single(self) -> float:
        """Seconds of one start."""
        return float(self._ask("single"))

    def burst(self, interval: float) -> list[float]:
        """For each domain, the seconds from its turn until it ran."""
        return [float(value) for value in self._ask(f"burst {interval}")]

    def attach(self, image: Path, runs: int) -> list[float]:
        """Seconds of each attach of a raw image to the first domain."""
        return [float(value) for value in self._ask(f"attach {image} {runs}")]

    def cpu_seconds(self) -> float:
        """CPU time taken so far, QEMUs and all."""
        return float(self._ask("cpu"))

    def destroy(self) -> None:
        """End all domains."""
        self._ask("destroy")

    def _ask(self, command: str) -> Any:
        self._send(command)
        return self._receive()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the bare libvirt program has ended; its error is above")
        return json.loads(line)
