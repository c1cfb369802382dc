"""On which nodes a network of the LAN is: what handlers say of their nodes' bridges, and controllers ask for. Pure.

A NetworkAttachmentDefinition names the bridge in its CNI configuration. CNI's plugin makes a bridge that is missing,
and a guest is then on a network with nobody else: only a network that says so is one of those nodes alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kvedge.resources.types.attachments import NetworkAttachmentDefinition

# The label of a node for each of its bridges.
BRIDGE_PREFIX: Final = "bridge.node.kvedge.io/"
# On a NetworkAttachmentDefinition: its guests go to nodes that have its bridge.
ONLY_WITH_BRIDGE: Final = "kvedge.io/only-on-nodes-with-bridge"
# A node's labels are read by everybody who follows nodes.
MOST_BRIDGES: Final = 64
# A configuration has a few hundred characters.
_LONGEST: Final = 16 * 1024
# What the kernel lets a link be called, as far as it can be a label.
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,13}[A-Za-z0-9])?")


def bridge_labels(bridges: Iterable[str]) -> dict[str, str]:
    """What a node with these bridges says; those that cannot be a label are left out."""
    named = sorted(name for name in bridges if _NAME.fullmatch(name))
    return {BRIDGE_PREFIX + name: "true" for name in named[:MOST_BRIDGES]}


def wanted_bridges(selector: Mapping[str, str]) -> list[str]:
    """The bridges that a node must have for a Pod with this node selector."""
    return sorted(key.removeprefix(BRIDGE_PREFIX) for key in selector if key.startswith(BRIDGE_PREFIX))


def find_needed_bridge(network: NetworkAttachmentDefinition) -> str:
    """The bridge that a node must have for this network's guests; empty where any node will do."""
    if network.metadata.annotations.get(ONLY_WITH_BRIDGE) != "true":
        return ""
    for plugin in _plugins(network.spec.config):
        if plugin.get("type") == "bridge":
            name = str(plugin.get("bridge") or "")
            own = plugin.get("kvedge")
            made = isinstance(own, dict) and own.get("makeBridge") is True
            return name if _NAME.fullmatch(name) and not made else ""
    return ""


def _plugins(text: str) -> list[Mapping[str, Any]]:
    try:
        document = json.loads(text) if len(text) <= _LONGEST else {}
    except (ValueError, RecursionError):
        # The agent that joins the Pod to it says what is wrong.
        return []
    if not isinstance(document, dict):
        return []
    plugins = document.get("plugins", [document])
    return [each for each in plugins if isinstance(each, dict)] if isinstance(plugins, list) else []
