"""A controller in a process of its own, for tests that kill or stop one: `python -m … KUBECONFIG`.

Says `started` when it campaigns, and then each of its writes apart from the lease's and events, before it is sent.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from kvedge.controller.controller_service import ControllerRole
from kvedge.kube.rest_edge import RestEdge
from tests.support.builders import CONFIG


def main(kubeconfig: str) -> None:
    send = RestEdge._send

    def telling(self, call, patience):
        if call.method != "GET" and "/leases" not in call.path and "/events" not in call.path:
            # In one piece: a line of another thread must not come between it and its end.
            sys.stdout.write(f"{call.method} {call.path}\n")
            sys.stdout.flush()
        return send(self, call, patience)

    RestEdge._send = telling
    role = ControllerRole(Path(kubeconfig), CONFIG, leader_election=True)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    role.start()
    print("started", flush=True)
    stopping.wait()
    role.stop()


if __name__ == "__main__":
    main(sys.argv[1])
