"""Readiness and liveness probes: what a row of answers means, and the one function that asks.

Called by the Pod loop while a container runs.
"""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass
from typing import Any, Final

from kvedge.resources.codec import JsonObject

_MOST: Final = 10 << 10


@dataclass(slots=True)
class ProbeHistory:
    """One probe's past: `due` on the monotonic clock; `passed` is None until it has said something."""

    due: float
    successes: int = 0
    failures: int = 0
    passed: bool | None = None


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """A probe's numbers with Kubernetes' defaults, in seconds."""

    initial_delay: float
    period: float
    timeout: float
    successes: int
    failures: int


def probe_settings(probe: JsonObject) -> ProbeSettings:
    """The numbers of a probe."""
    return ProbeSettings(
        initial_delay=float(probe.get("initialDelaySeconds") or 0),
        period=float(probe.get("periodSeconds") or 10),
        timeout=float(probe.get("timeoutSeconds") or 1),
        successes=int(probe.get("successThreshold") or 1),
        failures=int(probe.get("failureThreshold") or 3),
    )


def take_answer(history: ProbeHistory, settings: ProbeSettings, passed: bool, now: float) -> None:
    """Count an answer; the verdict changes after as many equal ones as the probe asks for."""
    history.due = now + settings.period
    history.successes = history.successes + 1 if passed else 0
    history.failures = 0 if passed else history.failures + 1
    if history.successes >= settings.successes:
        history.passed = True
    elif history.failures >= settings.failures:
        history.passed = False


def ask_probe(probe: JsonObject, address: str) -> bool:
    """Ask a container at its Pod's address, once; False for any answer but success."""
    timeout = probe_settings(probe).timeout
    try:
        if "httpGet" in probe:
            return _ask_http(probe["httpGet"], address, timeout)
        wanted = probe["tcpSocket"]
        with socket.create_connection((wanted.get("host") or address, int(wanted["port"])), timeout):
            return True
    except (OSError, http.client.HTTPException, ValueError):
        return False


def _ask_http(wanted: dict[str, Any], address: str, timeout: float) -> bool:
    host, port = wanted.get("host") or address, int(wanted["port"])
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    if wanted.get("scheme") == "HTTPS":
        import ssl

        # As the kubelet does: a probe asks whether something answers, not who.
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    headers = {str(item["name"]): str(item["value"]) for item in wanted.get("httpHeaders") or []}
    try:
        connection.request("GET", wanted.get("path") or "/", headers={"User-Agent": "kube-probe/kvedge", **headers})
        answer = connection.getresponse()
        answer.read(_MOST)
        return 200 <= answer.status < 400
    finally:
        connection.close()
