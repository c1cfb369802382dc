"""The node agent as a process of its own, so that tests can kill it."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from kvedge.kube.kube_client import KubeClient
from kvedge.runtime.linux.cpu_lists import parse_cpu_list
from kvedge.runtime.logs import set_up_logs
from kvedge.standalone.agent.agent_service import AgentConfig, NodeAgent


def main() -> None:
    data, kubeconfig, node, cidr, dedicated_cpus = sys.argv[1:]
    set_up_logs("info")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    config = AgentConfig(
        node=node,
        data_dir=Path(data),
        kubelet=Path(data) / "kubelet",
        pod_cidr=cidr,
        dedicated_cpus=parse_cpu_list(dedicated_cpus),
    )
    agent = NodeAgent(config, KubeClient.from_kubeconfig(kubeconfig))
    agent.start()
    print("ready", flush=True)
    stop.wait()
    agent.stop()


if __name__ == "__main__":
    main()
