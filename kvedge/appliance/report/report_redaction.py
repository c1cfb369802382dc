"""Takes secrets out of what goes into a report. Pure.

Used by `report_file` and the report verb. Objects come first: what is removed from them (the values of Secrets,
cloud-init's user data, passwords) is remembered, and removed from every text after that, wherever it shows up again.
What only looks like a secret in a text (a key, a token, a password after its name) is removed as well.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Final

from kvedge.resources.codec import JsonObject, JsonValue

REMOVED: Final = "(removed)"
# Shorter secrets would take half of the report with them. A short secret behind its name is found all the same.
_SHORTEST: Final = 6
# A line of user data of this length hardly occurs elsewhere by chance.
_LONG_LINE: Final = 20
_NAMES: Final = (
    r"pass(?:word|wd|phrase)|secret(?:key|value|_?access_?key)?|token|private_?key|user_?data(?:base64)?|"
    r"network_?data(?:base64)?|credentials?|authorization|api_?key"
)
_KEY: Final = re.compile(rf"(?i)(?:.*[_.-])?(?:[a-z]*(?:{_NAMES}))")
_NAMED: Final = re.compile(
    rf"(?i)(\b[\w.-]*(?:{_NAMES})[\"']?[ \t]*[:=][ \t]*)(?:bearer[ \t]+|basic[ \t]+)?"
    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s,;}\]]+)"
)
_LOOKS: Final = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+"),
    re.compile(r"(?i)\bbearer\s+[\w.~+/=-]{6,}"),
    re.compile(r"\$(?:1|2[aby]|5|6|7|y|gy)\$[./\w$=,-]{8,}"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)


class Redaction:
    """What is known to be secret in one report."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()
        self._pattern: re.Pattern[str] | None = None

    def document(self, document: JsonObject) -> JsonObject:
        """A copy of an object without what is secret in it by its place; what was removed is remembered."""
        found = self._remove_secrets(document)
        assert isinstance(found, dict)
        if document.get("kind") in ("Secret", "ConfigMap"):
            for part in ("data", "stringData", "binaryData"):
                if isinstance(document.get(part), dict):
                    is_known_as_secret = document["kind"] == "Secret"
                    found[part] = {
                        key: self._describe_size(value, remember=is_known_as_secret)
                        for key, value in document[part].items()
                    }
        metadata = found.get("metadata")
        if isinstance(metadata, dict):
            # Noise, and the names of a Secret's keys.
            metadata.pop("managedFields", None)
            annotations = metadata.get("annotations")
            if isinstance(annotations, dict):
                metadata["annotations"] = {key: self._annotation(value) for key, value in annotations.items()}
        return found

    def scrub(self, value: JsonValue) -> JsonValue:
        """The same with every text in it run through :meth:`clean_text`; to be called once all objects are known."""
        if isinstance(value, dict):
            return {key: self.scrub(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.scrub(item) for item in value]
        return self.clean_text(value) if isinstance(value, str) else value

    def clean_text(self, text: str) -> str:
        """A text without what is known to be secret, or looks so."""
        if self._secrets:
            if self._pattern is None:
                longest_first = sorted(self._secrets, key=len, reverse=True)
                self._pattern = re.compile("|".join(map(re.escape, longest_first)))
            text = self._pattern.sub(REMOVED, text)
        for pattern in _LOOKS:
            text = pattern.sub(REMOVED, text)
        return _NAMED.sub(rf"\g<1>{REMOVED}", text)

    def _remove_secrets(self, value: JsonValue, key: str = "") -> JsonValue:
        if isinstance(value, dict):
            if _is_named_secret(value):
                self._remember(str(value["value"]))
                value = {**value, "value": REMOVED}
            return {name: self._remove_secrets(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [self._remove_secrets(item, key) for item in value]
        if isinstance(value, str) and value and _KEY.fullmatch(key):
            self._remember(value)
            return REMOVED
        return value

    def _annotation(self, value: JsonValue) -> JsonValue:
        """Whole objects are kept in annotations: kubectl's last-applied-configuration, revisions, backups."""
        if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
            return value
        try:
            document = json.loads(value)
        except ValueError:
            # Half a document: nobody can tell what is in it.
            self._remember(value)
            return REMOVED
        parts = document if isinstance(document, list) else [document]
        cleaned = [self.document(part) if isinstance(part, dict) else part for part in parts]
        return json.dumps(cleaned if isinstance(document, list) else cleaned[0])

    def _describe_size(self, value: JsonValue, *, remember: bool) -> str:
        if isinstance(value, str) and remember:
            self._remember(value)
        return f"{REMOVED[:-1]}, {len(value) if isinstance(value, str) else 0} characters)"

    def _remember(self, value: str) -> None:
        self._pattern = None
        for text in (value, *_decode(value)):
            self._secrets.update(item for item in _parts(text) if len(item) >= _SHORTEST)


def _is_named_secret(value: JsonObject) -> bool:
    """An entry such as `{name: DB_PASSWORD, value: …}`, of a container's environment."""
    name = value.get("name")
    return isinstance(name, str) and isinstance(value.get("value"), str) and _KEY.fullmatch(name) is not None


def _decode(value: str) -> Iterator[str]:
    try:
        yield base64.b64decode(value, validate=True).decode()
    except ValueError:
        return


def _parts(text: str) -> Iterator[str]:
    """A secret text whole, as JSON has it, and the pieces that are secret on their own."""
    stripped = text.strip()
    if stripped:
        yield stripped
        yield json.dumps(stripped)[1:-1]
    for match in _NAMED.finditer(text):
        yield match[2].strip("\"'")
    for line in text.splitlines():
        if len(line.strip()) >= _LONG_LINE:
            yield line.strip()
