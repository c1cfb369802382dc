"""A cluster of somebody else's, which $KUBECONFIG names: looked at first, then used in a namespace of the tests' own.

It is taken only by those who ask for the cluster tests by name (`pytest tests/cluster`): a KUBECONFIG that happens to
be in the environment starts no VM on anybody's cluster.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

from kvedge.kube.errors import KubeError, NotFound
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SCHEDULABLE, VERSION
from kvedge.resources.types.core import Node
from kvedge.resources.types.vm import VirtualMachine
from tests.support.cluster.any_cluster import GUEST_IMAGE, Cluster, kubectl_program, run_against

CLUSTER_TESTS = Path(__file__).resolve().parents[2] / "cluster"
# A kubelet tells of no more images than these.
_IMAGES_TOLD = 50


class UnfitError(Exception):
    """The cluster cannot be tested on; the message says what is missing, for whoever runs the tests."""


def given_kubeconfig(wanted: Sequence[str]) -> str:
    """$KUBECONFIG, if the cluster tests are among the paths that were asked for by name; or nothing."""
    paths = [Path(argument.partition("::")[0]).resolve() for argument in wanted]
    named = any(path == CLUSTER_TESTS or CLUSTER_TESTS in path.parents for path in paths)
    return os.environ.get("KUBECONFIG", "") if named else ""


@contextmanager
def foreign_cluster(given: str, image: str, directory: Path, removal_seconds: int = 150) -> Iterator[Cluster]:
    """That cluster with an empty namespace, which goes with everything in it at the end.

    Raises:
        UnfitError: it does not answer, or VMs cannot run there.
    """
    namespace = f"kvedge-tests-{secrets.token_hex(3)}"
    kubeconfig = directory / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(_narrowed(given, namespace))
    cluster = Cluster(kubeconfig, image or GUEST_IMAGE, namespace)
    try:
        _check(cluster, image)
        # Launchers have the host's /usr, which only such a namespace allows.
        labels = {"pod-security.kubernetes.io/enforce": "privileged"}
        metadata = {"name": namespace, "labels": labels}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        try:
            yield cluster
        finally:
            cluster.kubectl("delete", "namespace", namespace, f"--timeout={removal_seconds}s", check=False)
    finally:
        cluster.close()


def described(given: str) -> str:
    """The cluster in a line: context and server."""
    config = _view(given)
    return f"{config['current-context']} ({config['clusters'][0]['cluster']['server']})"


def _view(given: str) -> JsonObject:
    command = [kubectl_program(), "config", "view", "--raw", "--flatten", "--minify", "--output", "json"]
    try:
        done = run_against(given, command, check=False)
    except FileNotFoundError as error:
        raise UnfitError("there is no kubectl in $PATH") from error
    if done.returncode != 0:
        raise UnfitError(f"KUBECONFIG={given}: {done.stderr.strip()}")
    found: JsonObject = json.loads(done.stdout)
    return found


def _narrowed(given: str, namespace: str) -> str:
    """The current context alone, with our namespace in it."""
    config = _view(given)
    config["contexts"][0]["context"]["namespace"] = namespace
    return yaml.safe_dump(config)


def _check(cluster: Cluster, image: str) -> None:
    try:
        nodes = cluster.client.list(Node)
        cluster.client.list(VirtualMachine, cluster.namespace)
    except NotFound as error:
        raise UnfitError(
            "kvedge is not installed there: the cluster serves no virtualmachines.kubevirt.io"
            " (on its server: kvedge install --role server)"
        ) from error
    except KubeError as error:
        raise UnfitError(f"the cluster does not answer as it should: {error}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise UnfitError(f"the cluster does not answer: {error}") from error
    ours = [node for node in nodes if VERSION in node.metadata.annotations]
    if not ours:
        raise UnfitError("no node of the cluster has kvedge: none carries the annotation " + VERSION)
    fit = [node for node in ours if node.metadata.labels.get(SCHEDULABLE) == "true" and not node.spec.unschedulable]
    if not fit:
        names = ", ".join(sorted(node.metadata.name for node in ours))
        raise UnfitError(f"no node takes VMs now (label {SCHEDULABLE}=true, not cordoned) of {names}: kvedge status")
    if not image and (without := _without_image(cluster, {node.metadata.name for node in fit})):
        raise UnfitError(
            f"{', '.join(without)}: without the image {GUEST_IMAGE}. Make it with"
            " `python -m tests.support.cluster.guest_image guest.tar` and import it on each node"
            " (k3s ctr images import guest.tar), or set KVEDGE_TEST_IMAGE to a disk like it that nodes can pull"
        )


def _without_image(cluster: Cluster, fit: set[str]) -> list[str]:
    items = json.loads(cluster.kubectl("get", "nodes", "--output", "json").stdout)["items"]
    told = {item["metadata"]["name"]: item["status"].get("images") or [] for item in items}
    return sorted(
        name
        for name, images in told.items()
        if name in fit
        and len(images) < _IMAGES_TOLD
        and not any(GUEST_IMAGE in (image.get("names") or []) for image in images)
    )
