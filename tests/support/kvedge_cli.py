"""kvedge's command line as users run it, against one API server.

Used by contract tests, beside kubectl and virtctl. Starts processes.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# On a machine that is busy with a compiler.
_SECONDS = 60.0


class KvedgeCli:
    """The program with one kubeconfig."""

    def __init__(self, kubeconfig: Path, **environment: str) -> None:
        self.environment = {**os.environ, "KUBECONFIG": str(kubeconfig), **environment}

    def command(self, *arguments: str) -> list[str]:
        """The argv."""
        return [sys.executable, "-m", "kvedge", *arguments]

    def try_run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run it with `text` on its standard input."""
        return subprocess.run(
            self.command(*arguments),
            input=text,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env=self.environment,
        )

    def run(self, *arguments: str, text: str = "") -> str:
        """What it prints; the test fails when it fails."""
        done = self.try_run(*arguments, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run it beside the test; it is ended at the end."""
        process = subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                # What it has not read is lost with it.
                with contextlib.suppress(OSError):
                    stream.close()
