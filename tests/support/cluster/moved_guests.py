"""That a cluster's guests are migrated to be brought up to date, for the length of a test."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from kvedge.resources.names import SYSTEM_NAMESPACE
from tests.support.cluster.any_cluster import Cluster


@contextlib.contextmanager
def moved_guests(cluster: Cluster) -> Iterator[None]:
    """`LiveMigrate` among the KubeVirt object's methods; none is said again, however the block ends."""
    _say(cluster, {"workloadUpdateMethods": ["LiveMigrate"]})
    try:
        yield
    finally:
        _say(cluster, None)


def _say(cluster: Cluster, strategy: dict[str, list[str]] | None) -> None:
    change = json.dumps({"spec": {"workloadUpdateStrategy": strategy}})
    cluster.kubectl("patch", "kubevirt", "kubevirt", "-n", SYSTEM_NAMESPACE, "--type=merge", "-p", change)
