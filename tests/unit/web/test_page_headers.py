"""What pages may do."""

from __future__ import annotations

from kvedge.web.page_headers import page_headers


def test_nothing_of_others_runs_and_no_text_becomes_markup() -> None:
    policy = page_headers()["Content-Security-Policy"].split("; ")
    assert {"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert {"require-trusted-types-for 'script'", "trusted-types 'none'", "connect-src 'self'"} <= set(policy)
    assert not any("unsafe" in rule or "http" in rule or "*" in rule for rule in policy)


def test_the_nonce_is_for_styles_alone() -> None:
    policy = page_headers("abc")["Content-Security-Policy"].split("; ")
    assert [rule for rule in policy if "abc" in rule] == ["style-src 'self' 'nonce-abc'"]
