"""What is wrong with settings that have a form of their own."""

from __future__ import annotations

import pytest

from kvedge.runtime.setting_rules.form_rules import wrong_console, wrong_places, wrong_roles


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        (("", "", ""), []),
        (("[::]:8443", "/tls.crt", "/tls.key"), []),
        (("8443", "", ""), [("console-address", "8443 is not ADDRESS:PORT, such as 0.0.0.0:8443")]),
        (("", "/tls.crt", ""), [("console-key", "console-certificate and console-key go together: name both files")]),
        (("", "", "tls.key"), [
            ("console-key", "tls.key must be an absolute path"),
            ("console-certificate", "console-certificate and console-key go together: name both files"),
        ]),
    ],
    ids=["none", "all", "no address", "a certificate alone", "a key alone"],
)  # fmt: skip
def test_a_consoles_address_and_files(given: tuple[str, str, str], faults: list[tuple[str, str]]) -> None:
    assert list(wrong_console(*given)) == faults


def test_places_have_names_and_one_form() -> None:
    assert list(wrong_places("fast=/mnt/ssd, thin=lvm-thin:group/pool")) == []
    (twice,) = wrong_places("a=lvm-thin:group/pool,b=lvm-thin:group/pool")
    assert "each is one place only" in twice
    assert len(list(wrong_places("kvedge=/mnt/a,b=mnt/b,c=lvm-thin:pool"))) == 3


def test_a_role_that_is_none_is_told_with_the_nearest() -> None:
    assert wrong_roles("api, handler", ("api", "handler")) == ""
    assert wrong_roles("handlr", ("api", "handler")) == "handlr is not a role: did you mean handler?"
    assert wrong_roles(" ,", ("api",)) == "names no role: known are api"
