"""What a page is told of changes."""

from __future__ import annotations

from kvedge.web.live_feed import changes


def test_rows_that_changed_and_rows_that_went() -> None:
    def key(name: str) -> tuple[str, str, str]:
        return ("VirtualMachine", "shop", name)

    same, old, new = {"name": "a"}, {"name": "b", "status": "Stopped"}, {"name": "b", "status": "Running"}
    before = {key("a"): same, key("b"): old, key("c"): {"name": "c"}}
    now = {key("a"): dict(same), key("b"): new, key("d"): {"name": "d"}}
    assert changes(before, now) == {"rows": [new, {"name": "d"}], "gone": [["VirtualMachine", "shop", "c"]]}
    assert changes(now, now) == {"rows": [], "gone": []}
