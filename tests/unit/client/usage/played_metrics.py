"""A server whose metrics tell of two guests, one of which does not answer, and of a silent node."""

from __future__ import annotations

from types import SimpleNamespace

TEXT = """\
# HELP kubevirt_vmi_cpu_usage_seconds_total CPU time of QEMU and its vCPUs.
# TYPE kubevirt_vmi_cpu_usage_seconds_total counter
kubevirt_vmi_cpu_usage_seconds_total{node="n1",namespace="shop",name="web"} 1.5
kubevirt_vmi_storage_read_traffic_bytes_total{node="n1",namespace="shop",name="web",drive="root"} 100
kubevirt_vmi_storage_read_traffic_bytes_total{node="n1",namespace="shop",name="web",drive="data"} 200
kvedge_vmi_stats_up{node="n1",namespace="shop",name="web"} 1
kvedge_vmi_stats_up{node="n1",namespace="shop",name="db"} 0
kvedge_node_stats_up{node="n1"} 1
kvedge_node_stats_up{node="n2"} 0
"""


class PlayedMetrics:
    """The session with it."""

    def __init__(self) -> None:
        self.session = SimpleNamespace(client=SimpleNamespace(content=self._read))

    def _read(self, path: str, query: dict[str, str]) -> bytes:
        assert (path, query) == ("/apis/subresources.kubevirt.io/v1/metrics", {"guests": "true"})
        return TEXT.encode()
