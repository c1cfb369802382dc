"""Host and port in one text, in which the address of an IPv6 host stands in brackets. Pure; used by every role."""

from __future__ import annotations


def join_address(host: str, port: int) -> str:
    """`host:port`, as programs and URLs take it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
