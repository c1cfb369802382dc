"""VMIs that are wrong at one place: what their guests are asked.

What is changed in a small valid VMI (path below spec, value), the field that is named, and words of the message.
"""

from __future__ import annotations

from typing import Any

Wrong = dict[str, tuple[dict[str, Any], str, str]]
READINESS = "spec.readinessProbe"
LIVENESS = "spec.livenessProbe"
NO_NETWORK: dict[str, Any] = {
    "domain.devices.interfaces": [],
    "domain.devices.autoattachPodInterface": False,
    "networks": [],
}

WRONG_PROBES: Wrong = {
    "a probe that asks nothing": (
        {"readinessProbe": {"periodSeconds": 5}},
        READINESS,
        f"either {READINESS}.tcpSocket, {READINESS}.exec or {READINESS}.httpGet must be set if a {READINESS} is spec",
    ),
    "a probe that asks twice": (
        {"livenessProbe": {"guestAgentPing": {}, "exec": {"command": ["x"]}}},
        LIVENESS,
        f"{LIVENESS} must have exactly one probe type set",
    ),
    "a page without a network": (
        {**NO_NETWORK, "readinessProbe": {"httpGet": {"port": 80}}},
        f"{READINESS}.httpGet",
        f"{READINESS}.httpGet is only allowed if the Pod Network is attached",
    ),
    "a port without a network": (
        {**NO_NETWORK, "livenessProbe": {"tcpSocket": {"port": 80}}},
        f"{LIVENESS}.tcpSocket",
        f"{LIVENESS}.tcpSocket is only allowed if the Pod Network is attached",
    ),
    "liveness of a guest that waits": (
        {"startStrategy": "Paused", "livenessProbe": {"guestAgentPing": {}}},
        "spec.startStrategy",
        f"either spec.startStrategy or {LIVENESS} should be provided.Pausing VMI with LivenessProbe is not supported",
    ),
    "a kind of probe that there is not": (
        {"livenessProbe": {"grpc": {"port": 1}, "guestAgentPing": {}}},
        f"{LIVENESS}.grpc",
        f'unknown field "{LIVENESS}.grpc"',
    ),
    "a grace of its own": (
        {"livenessProbe": {"guestAgentPing": {}, "terminationGracePeriodSeconds": 1}},
        f"{LIVENESS}.terminationGracePeriodSeconds",
        "unknown field",
    ),
    "no program": ({"readinessProbe": {"exec": {}}}, f"{READINESS}.exec.command", "Required value"),
    "a program without a name": (
        {"readinessProbe": {"exec": {"command": [""]}}},
        f"{READINESS}.exec.command",
        "Required value",
    ),
    "a program with a novel": (
        {"readinessProbe": {"exec": {"command": ["sh", "-c", "x" * 40_000]}}},
        f"{READINESS}.exec.command",
        "Too long: may not be more than 32768 bytes",
    ),
    "a zero byte": (
        {"readinessProbe": {"exec": {"command": ["sh", "a\0b"]}}},
        f"{READINESS}.exec.command",
        "holds no zero byte",
    ),
    "a page without port": ({"readinessProbe": {"httpGet": {}}}, f"{READINESS}.httpGet", "port"),
    "port zero": (
        {"readinessProbe": {"httpGet": {"port": 0}}},
        f"{READINESS}.httpGet.port",
        f"{READINESS}.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
    ),
    "a port that is too large": (
        {"livenessProbe": {"tcpSocket": {"port": 65536}}},
        f"{LIVENESS}.tcpSocket.port",
        "must be between 1 and 65535, inclusive",
    ),
    "a port that nobody names": (
        {"livenessProbe": {"tcpSocket": {"port": "web"}}},
        f"{LIVENESS}.tcpSocket.port",
        'Invalid value: "web": no interface names such a port in spec.domain.devices.interfaces[].ports',
    ),
    "a scheme": (
        {"readinessProbe": {"httpGet": {"port": 21, "scheme": "FTP"}}},
        f"{READINESS}.httpGet.scheme",
        'Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
    ),
    "a header's name": (
        {"readinessProbe": {"httpGet": {"port": 80, "httpHeaders": [{"name": "A b", "value": "c"}]}}},
        f"{READINESS}.httpGet.httpHeaders[0].name",
        'Invalid value: "A b": a valid HTTP header must consist of alphanumeric characters',
    ),
    "a period before now": (
        {"readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": -1}},
        f"{READINESS}.periodSeconds",
        "Invalid value: -1: must be greater than or equal to 0",
    ),
    "a delay without end": (
        {"readinessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 1 << 31}},
        f"{READINESS}.initialDelaySeconds",
        "must be less than or equal to 2147483637",
    ),
    "liveness that succeeds twice": (
        {"livenessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 2}},
        f"{LIVENESS}.successThreshold",
        f"{LIVENESS}.successThreshold: Invalid value: 2: must be 1",
    ),
}
