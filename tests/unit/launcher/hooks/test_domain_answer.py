"""A domain's document from a hook sidecar: it stays the same domain, and small."""

from __future__ import annotations

import pytest

from kvedge.launcher.hooks.domain_answer import check_domain, show_domain

BEFORE = "<domain type='kvm'><name>default_web</name><uuid>u-1</uuid><memory>1</memory></domain>"


def test_a_changed_document_of_the_same_domain_is_taken() -> None:
    after = BEFORE.replace("<memory>1", "<memory>2")
    assert check_domain(BEFORE, after.encode()) == after


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "nothing"),
        (b" \n", "nothing"),
        (b"<domain>", "no XML"),
        (b"\xff", "no XML"),
        (b"<network><name>default_web</name><uuid>u-1</uuid></network>", "no <domain>"),
        (BEFORE.replace("default_web", "default_db").encode(), "another <name>"),
        (BEFORE.replace("u-1", "u-2").encode(), "another <uuid>"),
        (b"<domain><name>default_web</name></domain>", "another <uuid>"),
        (b"<!DOCTYPE d [<!ENTITY a 'x'>]>" + BEFORE.encode(), "DOCTYPE"),
        (b"<domain>" + b" " * (1 << 20) + b"</domain>", "more than 1 MiB"),
    ],
    ids=["nothing", "blanks", "half", "no text", "a network", "a name", "a uuid", "no uuid", "entities", "too long"],
)
def test_what_is_no_document_of_this_domain_is_refused(answer: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_domain(BEFORE, answer)


def test_a_hook_sees_empty_tables_of_smbios_by_both_of_their_tags() -> None:
    system = '<system><entry name="sku">1</entry></system>'
    xml = f'<domain><sysinfo type="smbios">{system}</sysinfo><devices><rng /></devices></domain>'
    shown = show_domain(xml)
    assert "<bios></bios><baseBoard></baseBoard><chassis></chassis></sysinfo>" in shown
    assert system in shown
    assert "<rng></rng>" in shown


def test_a_domain_without_smbios_gets_no_tables() -> None:
    assert show_domain("<domain><name>a</name></domain>") == "<domain><name>a</name></domain>\n"
