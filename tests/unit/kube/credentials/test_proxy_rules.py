"""Which servers are asked through a proxy."""

from __future__ import annotations

import pytest

from kvedge.kube.credentials.proxy_rules import proxy_for

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("server", "environment", "asked"),
    [
        ("https://k8s.example:6443", {}, ""),
        ("https://k8s.example:6443", {"https": PROXY}, PROXY),
        ("https://k8s.example:6443", {"http": PROXY}, ""),
        ("http://k8s.example:8080", {"http": PROXY}, PROXY),
        ("https://k8s.example:6443", {"all": "socks5://proxy.example:1080"}, ""),
        ("https://127.0.0.1:6443", {"https": PROXY}, ""),
        ("https://[::1]:6443", {"https": PROXY}, ""),
        ("https://localhost:6443", {"https": PROXY}, ""),
        ("https://k8s.example:6443", {"https": PROXY, "no": "k8s.example"}, ""),
        ("https://k8s.example:6443", {"https": PROXY, "no": "other, .EXAMPLE"}, ""),
        ("https://k8s.example:6443", {"https": PROXY, "no": "k8s.example:6443"}, ""),
        ("https://k8s.example:6443", {"https": PROXY, "no": "k8s.example:7443, s.example, ,"}, PROXY),
        ("https://k8s.example:6443", {"https": PROXY, "no": "*"}, ""),
        ("https://10.1.2.3:6443", {"https": PROXY, "no": "10.0.0.0/8"}, ""),
        ("https://10.1.2.3:6443", {"https": PROXY, "no": "192.168.0.0/16"}, PROXY),
        ("https://[2001:db8::1]:6443", {"https": PROXY, "no": "2001:db8::/32"}, ""),
    ],
)
def test_the_environments_proxy_is_for_the_outside(server: str, environment: dict[str, str], asked: str) -> None:
    assert proxy_for(server, "", environment) == asked


def test_a_kubeconfigs_own_proxy_is_asked_for_any_host_but_those_that_are_left_out() -> None:
    assert proxy_for("https://127.0.0.1:6443", PROXY, {"https": "http://other"}) == PROXY
    assert proxy_for("https://k8s.example", PROXY, {"no": "k8s.example"}) == ""
