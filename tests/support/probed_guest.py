"""VMs with probes of every kind, and what one sees of them: on one box and in a cluster alike."""

from __future__ import annotations

import time
import urllib.request
from typing import Any, Protocol

from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import Condition, condition
from kvedge.resources.types.core import Event, Pod
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import parse_rfc3339
from tests.support.agent_guest import RUN_PATH, USER_DATA
from tests.support.box import small_vm
from tests.support.waiting import wait_until

# Asked by the kubelet itself for a page, by the guest's agent, and by the kubelet for a port.
PAGED, PROGRAMMED, LISTENING = "paged", "programmed", "listening"
# On which nobody listens when the guest has booted.
LATE_PORT = 81
NO_AGENT = "the QEMU guest agent is not connected"
NOT_YET = "not yet, --sorry"
# Commands for the guest: its web server on one more port, and none of them, once this one has answered.
LISTEN = f"httpd -p {LATE_PORT} -h /www"
FALL_SILENT = "(sleep 1; killall httpd) </dev/null >/dev/null 2>&1 &"
# The Pod's words for a guest that is not ready.
UNREADY = "containers with unready status: [compute]"
# Before the first question a guest must have booted, on a machine that is shared with a compiler as well.
BOOT = 110
OFTEN = {"periodSeconds": 1, "failureThreshold": 3, "timeoutSeconds": 5}
# A kubelet tells no more than 25 things about a Pod in a row, and then one in five minutes. What a probe finds while
# the guest boots would use them up.
BOOTED = {**OFTEN, "initialDelaySeconds": BOOT}
# So long a guest may be silent before it is taken for dead.
SILENCE = 10
ALIVE = {**BOOTED, "failureThreshold": SILENCE}
PROBES: dict[str, dict[str, Any]] = {
    PAGED: {
        "readinessProbe": {"httpGet": {"port": "web", "path": "/ready"}, **BOOTED},
        "livenessProbe": {"guestAgentPing": {}, **ALIVE},
    },
    PROGRAMMED: {
        "readinessProbe": {
            "exec": {"command": ["/bin/sh", "-c", f"test -e /run/ready || {{ echo {NOT_YET}; exit 3; }}"]},
            **BOOTED,
        },
        "livenessProbe": {"exec": {"command": ["test", "!", "-e", "/run/dead"]}, **ALIVE},
    },
    LISTENING: {
        "readinessProbe": {"tcpSocket": {"port": LATE_PORT}, **BOOTED},
        "livenessProbe": {"tcpSocket": {"port": "web"}, **ALIVE},
    },
}


class Site(Protocol):
    """A box, or a cluster."""

    @property
    def client(self) -> KubeClient:
        """A client of an administrator."""

    def vmi(self, name: str) -> VirtualMachineInstance | None:
        """The VMI as it is, or None."""

    def pods(self, vmi: VirtualMachineInstance) -> list[Pod]:
        """Its launcher Pods."""


def probed_vm(name: str, image: str) -> JsonObject:
    """One of these VMs; the image's guest has the agent."""
    vm = small_vm(name, image, **PROBES[name])
    spec = vm["spec"]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = 5
    spec["domain"]["memory"]["guest"] = "192Mi"
    devices = spec["domain"]["devices"]
    devices["interfaces"][0]["ports"] = [{"name": "web", "port": 80}]
    devices["disks"] += [{"name": disk, "disk": {"bus": "virtio"}} for disk in ("data", "seed")]
    spec["volumes"] += [
        {"name": "data", "emptyDisk": {"capacity": "16Mi"}},
        {"name": "seed", "cloudInitNoCloud": {"userData": USER_DATA.replace("/dev/vda", "/dev/vdb")}},
    ]
    return vm


def the_vmi(site: Site, name: str) -> VirtualMachineInstance:
    """The VMI, which is there."""
    found = site.vmi(name)
    assert found is not None
    return found


def ready(site: Site, name: str) -> Condition:
    """The VMI's condition Ready."""
    found = site.vmi(name)
    made = condition(found.status.conditions, "Ready") if found else None
    return made or Condition(type="Ready", status="Unknown")


def wait_ready(site: Site, name: str, status: str, seconds: float = 60.0) -> None:
    """Until it has this status."""
    wait_until(lambda: ready(site, name).status == status, f"{name} Ready {status}", seconds)


def in_guest(site: Site, name: str, command: str) -> None:
    """Run a command as root in the guest."""
    url = f"http://{the_vmi(site, name).status.interfaces[0].ip_address}{RUN_PATH}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, data=command.encode()), timeout=20) as answer:
        assert answer.status == 200


def told(site: Site, words: str) -> list[str]:
    """What events say that has these words in it, with the name of what they are about."""
    events = site.client.list(Event, "default")
    return [f"{event.involved_object.name}: {event.message}" for event in events if words in event.message]


def wait_told(site: Site, words: str, seconds: float = 90.0) -> None:
    """Until an event says it; what others say comes with the failure."""
    try:
        wait_until(lambda: told(site, words), "it is told", seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}\n" + "\n".join(told(site, ""))) from error


def pod_of(site: Site, vmi: VirtualMachineInstance) -> str:
    """The name of the launcher Pod."""
    (pod,) = site.pods(vmi)
    return pod.metadata.name


def wait_liveness(site: Site, name: str) -> None:
    """Until the liveness probe has been asked for a while."""
    begun = the_vmi(site, name).status.phase_transition_timestamps[-1].phase_transition_timestamp
    since = parse_rfc3339(begun).timestamp() + BOOT + 10 + 5
    wait_until(lambda: time.time() > since, "the liveness probe is at work", BOOT + 30, 1.0)


def wait_new_run(site: Site, name: str, before: VirtualMachineInstance) -> None:
    """Until another VMI of this name runs."""

    def fresh() -> bool:
        found = site.vmi(name)
        return found is not None and found.metadata.uid != before.metadata.uid and found.status.phase == "Running"

    wait_until(fresh, f"{name} runs anew", 150)
