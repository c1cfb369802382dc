"""What a namespace looks like to the distribution's own programs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from kvedge.network.netns import netns_path, run_in_netns


def ip_json(netns: str | None, *arguments: str) -> list[dict[str, object]]:
    """What the distribution's `ip` says: a reader that shares nothing with us."""
    command = ["ip", *([] if netns is None else ["-n", netns]), "-d", "-j", *arguments]
    return list(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout or "[]"))


def picture(netns: str) -> dict[str, object]:
    """Links, addresses, routes and filters of a namespace, without what differs from run to run."""
    links = {}
    for link in ip_json(netns, "addr"):
        info = link.get("linkinfo", {})
        assert isinstance(info, dict)
        slave = info.get("info_slave_data", {})
        flags = link["flags"]
        assert isinstance(flags, list)
        addresses = link["addr_info"]
        assert isinstance(addresses, list)
        links[link["ifname"]] = {
            "kind": info.get("info_kind"),
            "mac": None if info.get("info_kind") == "tun" else link["address"],
            "mtu": link["mtu"],
            "up": "UP" in flags,
            "master": link.get("master"),
            "learning": slave.get("learning"),
            "addresses": sorted(
                f"{each['local']}/{each['prefixlen']}" for each in addresses if each["scope"] != "link"
            ),
            "tap": {
                key: info.get("info_data", {}).get(key)
                for key in ("type", "user", "multi_queue", "vnet_hdr", "persist")
            },
        }
    routes = sorted((str(each["dst"]), str(each.get("gateway", ""))) for each in ip_json(netns, "route"))
    nft = subprocess.run(
        ["ip", "netns", "exec", netns, "nft", "list", "ruleset"], capture_output=True, text=True, check=True
    )
    return {"links": links, "routes": routes, "filters": nft.stdout, "settings": settings(netns)}


def settings(netns: str) -> dict[str, str]:
    """The kernel settings of a namespace that a binding changes."""
    names = ["ip_unprivileged_port_start", "conf/all/arp_ignore", "conf/all/rp_filter"]
    return {name: run_in_netns(netns_path(netns), Path("/proc/sys/net/ipv4", name).read_text).strip() for name in names}
