"""Prometheus and promtool of the distribution, unpacked and not installed: what really reads the metrics and the rules.

Needs apt and dpkg. Where the packages cannot be had, a test that needs them is skipped.
"""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.ports import free_port
from tests.support.unpacked_packages import unpack_packages
from tests.support.waiting import wait_until

# A lint's remark is no failure to read.
_READ: Final = (0, 3)
_SECONDS: Final = 60


def find_program(name: str) -> str:
    """Where one of the package's programs is; the test is skipped when the package cannot be had."""
    try:
        return str(unpack_packages("prometheus", "prometheus") / "usr/bin" / name)
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("the distribution's package prometheus cannot be had")


def check_metrics(text: str) -> list[str]:
    """The remarks of `promtool check metrics`; the test fails when it cannot read the text."""
    done = subprocess.run(
        [find_program("promtool"), "check", "metrics"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    assert done.returncode in _READ, done.stderr
    return done.stderr.splitlines()


def write_rules(directory: Path, documents: Sequence[Path]) -> list[Path]:
    """The rules of PrometheusRules as files for Prometheus, which promtool finds good."""
    written = []
    for document in documents:
        spec = yaml.safe_load(document.read_text())["spec"]
        path = directory / document.name
        path.write_text(yaml.safe_dump(spec))
        command = [find_program("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)
        assert done.returncode == 0, done.stderr + done.stdout
        written.append(path)
    return written


class Prometheus:
    """One that runs, and its API."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer."""
        text = urllib.parse.urlencode(query)
        with urllib.request.urlopen(f"{self._base}/api/v1/{path}?{text}", timeout=10) as answer:
            return json.load(answer)["data"]

    def is_up(self) -> bool:
        """Whether it serves."""
        try:
            with urllib.request.urlopen(f"{self._base}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def query(self, expression: str) -> list[tuple[Mapping[str, str], float]]:
        """Labels and values of the series that an expression has now."""
        found = self.ask("query", query=expression)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]


@contextmanager
def run_prometheus(
    directory: Path, jobs: Sequence[Mapping[str, Any]], rules: Sequence[Path] = ()
) -> Iterator[Prometheus]:
    """One that scrapes these jobs each second, and works out the rules, until the block ends."""
    times = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    configuration = {"global": times, "scrape_configs": list(jobs), "rule_files": [str(rule) for rule in rules]}
    (directory / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    port = free_port()
    command = [
        find_program("prometheus"),
        f"--config.file={directory}/prometheus.yaml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (directory / "prometheus.log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            found = Prometheus(port)
            wait_until(lambda: found.is_up() or process.poll() is not None, "Prometheus serves", 60)
            assert process.poll() is None, (directory / "prometheus.log").read_text()[-2000:]
            yield found
        finally:
            process.terminate()
            process.wait(30)
