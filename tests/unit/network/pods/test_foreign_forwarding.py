"""Who else needs the host to forward, of what nftables does not know."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.network import sysctls
from kvedge.network.pods import foreign_forwarding
from kvedge.network.pods.foreign_forwarding import LEGACY_NAT, forwards_already, legacy_nat


@pytest.mark.parametrize(
    ("tables", "found"), [("filter\n", ()), ("", ()), ("mangle\nnat\nfilter\n", (LEGACY_NAT,))], ids=repr
)
def test_the_nat_of_the_older_iptables_counts(
    tables: str, found: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tmp_path / "ip_tables_names"
    monkeypatch.setattr(foreign_forwarding, "LEGACY_TABLES", names)
    assert legacy_nat() == ()
    names.write_text(tables)
    assert legacy_nat() == found


def test_a_link_that_forwards_by_itself_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysctls, "ROOT", tmp_path)
    for name, value in (("eth0", "0"), ("eth1", "1")):
        (tmp_path / "ipv4/conf" / name).mkdir(parents=True)
        (tmp_path / "ipv4/conf" / name / "forwarding").write_text(f"{value}\n")
    assert not forwards_already(["eth0", "gone"])
    assert forwards_already(["eth0", "eth1"])
