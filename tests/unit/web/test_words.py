# Tests: kvedge/web/
"""What the pages say in another language: no sentence is missing, none is left over, and none is outside of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge import web
from kvedge.web.site.access_calls import _ACTS
from kvedge.web.site.settings_view import WORDS
from tests.unit.web.program_words import program_sentences, said_sentences
from tests.unit.web.script_words import places_of, read_catalogue, read_words

_STATIC = Path(web.__file__).parent / "static"
_SCRIPTS = sorted(_STATIC.glob("*.js"))
# Of each language but English, its two files.
_LANGUAGES = sorted(path.stem.removeprefix("words_") for path in (_STATIC / "words").glob("words_*.js"))


def catalogue(kind: str, language: str) -> dict[str, str | dict[str, str]]:
    return read_catalogue((_STATIC / "words" / f"{kind}_{language}.js").read_text())


def test_scripts_are_read_as_they_are_meant() -> None:
    found = read_words(
        """
        import { t } from "./some words/here.js";  // t("not this")
        const PATTERN = /"[^/]" t\\("no"/;
        note(t("{vm} stays", { vm: `${namespace}/${ok ? "one word" : t("inner")}` }));
        table(t("Nodes"), ts("Name", "State"), rows.map((row) => [row.kind === "DataVolume" ? "bare cell" : row.text]));
        element("p", { class: "two words", "aria-label": "bare label" }, `bare ${t("shown")}`, t(`bare template`));
        plural(count, "{count} VM", "{count} VMs");
        state.textContent = isOpen ? "bare place" : "bare";
        button("Bare", () => act("quiet"));
        """
    )
    assert found.sentences >= {"{vm} stays", "inner", "Nodes", "Name", "State", "shown"}
    assert not found.sentences & {"not this", "no"}
    assert found.plurals == {"{count} VMs"}
    bare = {"one word", "bare cell", "bare label", "bare {}", "bare template", "bare place", "Bare"}
    assert set(found.bare) - {"two words"} == bare


@pytest.mark.parametrize("path", _SCRIPTS, ids=lambda path: path.name)
def test_a_page_shows_no_words_besides_the_catalogue(path: Path) -> None:
    assert read_words(path.read_text()).bare == ()


@pytest.mark.parametrize("language", _LANGUAGES)
def test_each_sentence_of_the_pages_is_there_once_and_none_is_left_over(language: str) -> None:
    found = [read_words(path.read_text()) for path in _SCRIPTS]
    known = catalogue("words", language)
    sentences = {text for each in found for text in each.sentences}
    plurals = {text for each in found for text in each.plurals}
    assert {key for key, value in known.items() if isinstance(value, str)} == sentences
    assert {key for key, value in known.items() if not isinstance(value, str)} == plurals


@pytest.mark.parametrize("language", _LANGUAGES)
@pytest.mark.parametrize("kind", ["words", "said"])
def test_each_sentence_has_the_same_places_in_it(kind: str, language: str) -> None:
    for key, value in catalogue(kind, language).items():
        for text in value.values() if isinstance(value, dict) else [value]:
            assert places_of(text) == places_of(key), key
            assert text.strip() == text != "", key


def test_german_plurals_have_their_two_forms() -> None:
    forms = [set(value) for value in catalogue("words", "de").values() if isinstance(value, dict)]
    assert forms
    assert all(each == {"one", "other"} for each in forms)


@pytest.mark.parametrize("language", _LANGUAGES)
def test_what_the_program_itself_says_is_there_and_nothing_is_left_over(language: str) -> None:
    known = set(catalogue("said", language))
    shapes = {program_shape(key) for key in known}
    missing = {text for text in said_sentences() if program_shape(text) not in shapes}
    assert missing == set()
    assert {*_ACTS, *WORDS.values()} <= known
    sources = {program_shape(text) for text in program_sentences()}
    # Said by `check_name`, of whatever is named.
    pieces = {"name {name}: {why}", "namespace {name}: {why}"}
    assert {key for key in known - pieces if program_shape(key) not in sources} == set()


def program_shape(text: str) -> str:
    """A sentence without the names of its places."""
    for place in places_of(text):
        text = text.replace(f"{{{place}}}", "{}")
    return text
