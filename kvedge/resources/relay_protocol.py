"""What api role, handler and launcher say to each other about a guest: protocol number, paths, header, limits.

Read by the api role, by the node's relay in the handler and by the launcher's server. Constants only: every launcher
imports them and pays for them. Which verbs there are stands in guest_verbs.py. Old and new versions meet on this
protocol: what stands here stays, and a side that does not know a newer verb refuses it politely.
"""

from __future__ import annotations

from typing import Final

# Between handler and launcher: a handler refuses a launcher that speaks a newer one.
PROTOCOL: Final = 1
# Where a relay repeats the reason of a refusal: a client that wanted a websocket gets to see headers only.
REASON_HEADER: Final = "X-Kvedge-Reason"
RELAY_PREFIX: Final = "/v1/namespaces/{namespace}/virtualmachineinstances/{name}"
# From handler to handler: a connection to a socket of the launcher that a guest comes to.
MIGRATION_ROUTE: Final = f"{RELAY_PREFIX}/migrations/{{uid}}/{{channel}}"
# From box to box: what the source of a guest says of it, and the target's answer. No name of a channel.
CROSSING_ROUTE: Final = f"{RELAY_PREFIX}/migrations/{{uid}}/words"
# What all guests of the node have used: `NodeStats`.
STATS_ROUTE: Final = "/v1/stats"
# What the handler's process counts of itself: `RoleStats`.
ROLE_STATS_ROUTE: Final = "/v1/role-stats"
NO_UPGRADE: Final = "this call is a websocket: connect with an Upgrade header"
# Options and parameters of single verbs on the way to the relay.
UNFREEZE_SECONDS: Final = "unfreezeSeconds"
PRESERVE_SESSION: Final = "preserveSession"
# What a screen with a viewer answers to it, with the status 503; KubeVirt's words.
VNC_IS_BUSY: Final = "Active VNC connection. Request denied."
# The same of a screen by SPICE; ours.
SPICE_IS_BUSY: Final = "Active SPICE connection. Request denied."
MOVE_CURSOR: Final = "moveCursor"
VSOCK_PORT: Final = "port"
VSOCK_TLS: Final = "tls"
# The number after it stands for any port.
VSOCK_LAST_PORT: Final = 2**32 - 2
LONGEST_FREEZE_SECONDS: Final = 7 * 24 * 3600
# A picture of a large screen.
LARGEST_PICTURE: Final = 32 << 20


def relay_path(namespace: str, name: str, verb: str) -> str:
    """The path at a relay by which a verb of one VMI is called."""
    return f"{RELAY_PREFIX.format(namespace=namespace, name=name)}/{verb}"


def migration_path(namespace: str, name: str, uid: str, channel: str) -> str:
    """The path at a relay to a socket of the launcher that awaits the guest of this migration."""
    return MIGRATION_ROUTE.format(namespace=namespace, name=name, uid=uid, channel=channel)


def crossing_path(namespace: str, name: str, uid: str) -> str:
    """The path at a relay by which the source of a guest from another box speaks of it."""
    return CROSSING_ROUTE.format(namespace=namespace, name=name, uid=uid)
