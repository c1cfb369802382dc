"""What happens in a cluster when a node of it leaves kvedge, or is no server any more; and what is told of it.

Called by install_verbs when kvedge's daemon has stopped, which would write all of it anew. Asks the cluster with the
administrator's kubeconfig, and speaks of its own Node with its handler's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvedge.appliance.cluster.cluster_node import admin_client
from kvedge.appliance.cluster.node_kubeconfigs import administrator_kubeconfig

if TYPE_CHECKING:
    from kvedge.appliance.cluster.leave_plan import Leaving
    from kvedge.kube.kube_client import KubeClient
    from kvedge.runtime.settings import Settings

# While the cluster does not answer, leftovers on its Node do no harm.
_NODE_SECONDS: Final = 5.0
_BY_HAND: Final = (
    "if no other server runs kvedge, no namespace of the cluster can be deleted until somebody runs, with an"
    " administrator's kubeconfig: kubectl delete --ignore-not-found apiservice v1.subresources.kubevirt.io"
    " v1alpha3.subresources.kubevirt.io"
)


def leave_node(
    kubeconfigs: Sequence[Path], node: str, progress: Callable[[str], None], warn: Callable[[str], None]
) -> None:
    """Take off this Node what its handler has written, by the first of the kubeconfigs that may.

    Where none can, `warn` gets what is left there, and what to do.
    """
    from kvedge.appliance.cluster.cluster_objects import clear_node
    from kvedge.appliance.cluster.leave_plan import NODE_BY_HAND
    from kvedge.kube.errors import KubeError
    from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError

    problems = []
    for path in kubeconfigs:
        try:
            if clear_node(admin_client(path).hurry(_NODE_SECONDS), node):
                progress(f"remove from the cluster what kvedge says of node {node}")
            return
        except (KubeError, KubeconfigError) as error:
            problems.append(f"{path}: {error}")
    why = "; ".join(problems) or "no kubeconfig is here"
    by_hand = NODE_BY_HAND.format(node)
    warn(f"left in the cluster: the labels of node {node}, {why}; as an administrator: {by_hand}")


def leave_cluster(
    operators: Settings,
    node: str,
    progress: Callable[[str], None],
    warn: Callable[[str], None],
    *,
    was_server: bool,
    purge: bool,
) -> None:
    """Take out what no node serves any more once `node` does not, with `purge` all but VMs, and say what stays.

    When the cluster does not answer, `warn` gets what is left there. `operators` are the settings without those of an
    installation.
    """
    from kvedge.kube.errors import KubeError
    from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError

    if not was_server and not purge:
        return
    admin = administrator_kubeconfig(operators)
    if admin is None:
        if was_server:
            progress(f"left in the cluster: all of kvedge, as no administrator's kubeconfig is here; {_BY_HAND}")
        return
    try:
        leave(admin_client(admin), node, progress, purge=purge)
    except (KubeError, KubeconfigError) as error:
        warn(f"left in the cluster: all of kvedge, as it does not answer: {error}; {_BY_HAND}")


def leave(client: KubeClient, node: str, progress: Callable[[str], None], *, purge: bool) -> Leaving:
    """Do it, by a client; returns what was planned.

    Raises:
        KubeError: when the API server refuses or does not answer.
    """
    from kvedge.appliance.cluster.cluster_objects import other_nodes, remove_registration
    from kvedge.appliance.cluster.cluster_servers import answers, other_servers, remove_calls, remove_endpoint
    from kvedge.appliance.cluster.leave_plan import Others, plan_leaving

    heard: dict[bool, list[str]] = {True: [], False: []}
    for server in other_servers(client, node):
        heard[answers(server)].append(str(server))
    plan = plan_leaving(Others(heard[True], heard[False], other_nodes(client, node)), purge=purge)
    steps = [remove_endpoint(client, node)]
    steps += [remove_calls(client)] if plan.calls else []
    steps += [remove_registration(client)] if plan.registration else []
    for path in chain.from_iterable(steps):
        progress(f"remove from the cluster {path}")
    progress(plan.told)
    return plan
