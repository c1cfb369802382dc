"""The headers of every answer: what a page of ours may load, run and be shown in. Pure; called by `console_app`."""

from __future__ import annotations

from typing import Final

_POLICY: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'{nonce}",
    # noVNC draws rectangles and cursors from data: URLs.
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    # No script, ours or a library's, can make HTML of a string.
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
_FIXED: Final = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "clipboard-read=(self), clipboard-write=(self), fullscreen=(self), camera=(), "
    "microphone=(), geolocation=(), usb=()",
    "Cache-Control": "no-store",
}


def page_headers(nonce: str = "") -> dict[str, str]:
    """For one answer; the nonce, of the page alone, lets xterm.js make its style elements."""
    policy = "; ".join(_POLICY).format(nonce=f" 'nonce-{nonce}'" if nonce else "")
    return {"Content-Security-Policy": policy, **_FIXED}
