"""Sockets in Pods' networks, for `kubectl port-forward`.

Called by the node agent from the API server's threads, as root. A socket stays in the network that it was made in,
whoever uses it.
"""

from __future__ import annotations

import os
import socket

from kvedge.network.errors import NetworkError
from kvedge.network.netns import is_netns, netns_path, run_in_netns
from kvedge.standalone.apiserver.routes.forwarding.forward_source import NoForward


def open_pod_socket(netns: str, family: socket.AddressFamily) -> socket.socket:
    """A TCP socket in the network namespace of this name; it does not block and is not connected.

    Raises:
        NoForward: there is no such namespace.
        OSError: the kernel has no such sockets.
    """
    path = netns_path(netns)
    if os.sep in netns or not is_netns(path):
        raise NoForward("the pod has no network on this box")

    def make() -> socket.socket:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setblocking(False)
        return made

    try:
        return run_in_netns(path, make)
    except NetworkError as error:
        # It has just gone.
        raise NoForward(str(error)) from error
