"""What a test does with any cluster that has kvedge, whoever owns its machines.

Everything here goes through the cluster's API server: nothing needs a way from the tests' machine to a node or a Pod.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import COMPUTE_CONTAINER, CREATED_BY, VM_NAME
from kvedge.resources.types.core import Pod
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.box import CHECKOUT, end_guest
from tests.support.kube_apiserver import assets
from tests.support.waiting import wait_until

BOOT_SECONDS = 150.0
# What the tests' VMs boot from; on a cluster of somebody else's $KVEDGE_TEST_IMAGE names it.
GUEST_IMAGE = "kvedge.local/test-guest:1"
# Nothing but the shell's own words, as a node need not have more.
_EACH_QEMU = 'for p in /proc/[0-9]*; do read -r name <$p/comm && case $name in qemu*) {} "${{p#/proc/}}";; esac; done'
_ANSWER_SECONDS = 3.0


@dataclass(frozen=True, order=True)
class ServiceEndpoint:
    """One address behind a Service, as its EndpointSlices tell."""

    address: str
    port: int
    ready: bool
    pod: str = ""


@dataclass
class Cluster:
    """What a test does with any cluster."""

    kubeconfig: Path
    image: str = GUEST_IMAGE
    # Where the kubeconfig leads kubectl and kvedge's verbs, too.
    namespace: str = "default"
    _client: KubeClient | None = None

    @property
    def client(self) -> KubeClient:
        """A client with an administrator's kubeconfig."""
        if self._client is None:
            self._client = KubeClient.from_kubeconfig(self.kubeconfig)
        return self._client

    def close(self) -> None:
        """End the client's connections."""
        if self._client is not None:
            self._client.close()

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a verb of kvedge against this cluster."""
        return run_against(self.kubeconfig, [*CHECKOUT, *arguments], check=check)

    def kubectl(self, *arguments: str, check: bool = True, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run kubectl."""
        return run_against(self.kubeconfig, [kubectl_program(), *arguments], check=check, text=text)

    def apply(self, *manifests: JsonObject) -> None:
        """Apply manifests with kubectl."""
        self.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(manifests))

    def vm(self, name: str) -> VirtualMachine:
        """The VM as it is."""
        return self.client.get(VirtualMachine, self.namespace, name)

    def vmi(self, name: str) -> VirtualMachineInstance | None:
        """The VMI as it is, or None."""
        with contextlib.suppress(NotFound):
            return self.client.get(VirtualMachineInstance, self.namespace, name)
        return None

    def pods(self, vmi: VirtualMachineInstance) -> list[Pod]:
        """The launcher Pods of a VMI."""
        return self.client.list(Pod, self.namespace, label_selector=f"{CREATED_BY}={vmi.metadata.uid}")

    def pods_of(self, name: str) -> list[Pod]:
        """The launcher Pods of all runs of a VM."""
        return self.client.list(Pod, self.namespace, label_selector=f"{VM_NAME}={name}")

    def wait_phase(self, name: str, phase: str, seconds: float = BOOT_SECONDS) -> VirtualMachineInstance:
        """The VMI once it has this phase."""

        def check() -> VirtualMachineInstance | None:
            vmi = self.vmi(name)
            return vmi if vmi is not None and vmi.status.phase == phase else None

        try:
            return wait_until(check, f"VMI {name} is {phase}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told(name)}") from error

    def wait_new_run(self, before: VirtualMachineInstance, seconds: float = 200.0) -> VirtualMachineInstance:
        """The next VMI of the same name, once it is Running."""
        name = before.metadata.name

        def check() -> VirtualMachineInstance | None:
            found = self.vmi(name)
            if found is None or found.metadata.uid == before.metadata.uid:
                return None
            return found if found.status.phase == "Running" else None

        try:
            return wait_until(check, f"{name} runs anew", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told(name)}") from error

    def told(self, name: str) -> str:
        """Everything that the cluster says of a VMI and its Pods, and what the guest wrote last."""
        vmi = self.kubectl("get", "vmi", name, "-o", "yaml", check=False).stdout
        pods = self.kubectl("describe", "pods", check=False).stdout
        console = (
            f"/apis/subresources.kubevirt.io/v1/namespaces/{self.namespace}/virtualmachineinstances/{name}/console/log"
        )
        try:
            written = self.client.hurry(_ANSWER_SECONDS).content(console).decode(errors="replace")
        except KubeError as error:
            written = str(error)
        return f"{vmi}\n{pods}\n--- console of {name}\n{written[-4000:]}"

    def wait_gone(self, name: str, seconds: float = 90.0) -> None:
        """Until there is no VMI of that name."""
        wait_until(lambda: self.vmi(name) is None, f"VMI {name} is gone", seconds)

    def page(self, name: str) -> str:
        """What the guest says to HTTP now, or nothing: asked through the API server, which asks the Pod's address."""
        vmi = self.vmi(name)
        for pod in self.pods(vmi) if vmi is not None else ():
            path = Pod.KIND.path(self.namespace, f"{pod.metadata.name}:80")
            with contextlib.suppress(KubeError):
                return self.client.hurry(_ANSWER_SECONDS).content(f"{path}/proxy/").decode(errors="replace")
        return ""

    def wait_answer(self, name: str, seconds: float = BOOT_SECONDS) -> str:
        """What the guest's web page says, once it does."""
        try:
            return wait_until(lambda: self.page(name), f"the guest of {name} answers HTTP", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told(name)}") from error

    def remove_vm(self, name: str) -> None:
        """Delete a VM whose guest is no test's subject any more, and wait until nothing of it is left."""
        end_guest(self.client, self.namespace, name)
        self.kubectl("delete", "vm", name, "--ignore-not-found", "--wait=false")
        self.wait_gone(name)
        wait_until(lambda: not self.pods_of(name), "no Pod", 60)

    def endpoints(self, service: str, namespace: str = "") -> list[ServiceEndpoint]:
        """Where a Service leads."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace or self.namespace}/endpointslices"
        # Not by kubectl: it is asked again and again.
        chosen = {"labelSelector": f"kubernetes.io/service-name={service}"}
        slices = self.client.request("GET", path, query=chosen)["items"]
        return sorted(
            ServiceEndpoint(
                address,
                port["port"],
                entry.get("conditions", {}).get("ready", True),
                (entry.get("targetRef") or {}).get("name", ""),
            )
            for found in slices
            for port in found["ports"] or []
            for entry in found["endpoints"] or []
            for address in entry["addresses"]
        )

    def in_launcher(self, pod: Pod, *command: str, check: bool = True) -> str:
        """What a program says that is run in a launcher, as its user."""
        inside = ("exec", pod.metadata.name, "-c", COMPUTE_CONTAINER, "--")
        return self.kubectl(*inside, *command, check=check).stdout

    def count_qemus(self, vmi: VirtualMachineInstance) -> int:
        """How many QEMUs a VMI has: more than one is the end of the company."""
        running = [pod for pod in self.pods(vmi) if pod.status.phase == "Running"]
        # A container that has just ended has nobody to answer, and no QEMU.
        return sum(len(self._each_qemu(pod, "echo").split()) for pod in running)

    def kill_guest(self, vmi: VirtualMachineInstance) -> None:
        """End its QEMU with -9, as a crash does."""
        (pod,) = self.pods(vmi)
        assert self.count_qemus(vmi) == 1
        self._each_qemu(pod, "kill -9")

    def _each_qemu(self, pod: Pod, command: str) -> str:
        return self.in_launcher(pod, "/usr/bin/sh", "-c", _EACH_QEMU.format(command), check=False)


def kubectl_program() -> str:
    """The one beside Kubernetes' test binaries, or that of $PATH."""
    directory = assets()
    return str(directory / "kubectl") if directory and (directory / "kubectl").is_file() else "kubectl"


def run_against(
    kubeconfig: Path | str, command: Sequence[str], *, check: bool = True, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end with a kubeconfig, or several with colons between them."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with tempfile.TemporaryFile() as given:
        given.write(text.encode())
        given.seek(0)
        done = subprocess.run(
            list(command),
            stdin=given,
            capture_output=True,
            text=True,
            env=environment,
            cwd="/",
            timeout=180,
            check=False,
        )
    assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stderr or done.stdout}"
    return done
