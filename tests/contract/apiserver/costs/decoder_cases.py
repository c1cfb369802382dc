"""What the decoders of bodies cost: requests that everybody who is known may send, and some that fill an object."""

from __future__ import annotations

from typing import Any, Final

from kvedge.rpc import kubernetes_pb2 as messages
from kvedge.standalone.apiserver.wire.protobuf_body import MAGIC
from tests.contract.apiserver.costs.requests import (
    CONFIG_MAPS,
    PROTOBUF,
    SECRETS,
    YAML,
    Case,
    Request,
    config_map,
    create,
    encoded,
    many,
    named,
    review,
)
from tests.support.protobuf_documents import filled


def _yaml(text: str) -> Request:
    return review(text.encode(), YAML)


def _protobuf(document: dict[str, Any], path: str = CONFIG_MAPS) -> Request:
    fields = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    raw = filled(getattr(messages, document["kind"])(), fields).SerializeToString()
    meta = messages.TypeMeta(apiVersion=document["apiVersion"], kind=document["kind"])
    return Request("POST", path, MAGIC + messages.Unknown(typeMeta=meta, raw=raw).SerializeToString(), PROTOBUF)


def _nested(depth: int, inner: str) -> str:
    return '{"a": ' * depth + inner + "}" * depth


JSON_CASES: Final = [
    Case("a list of numbers", "view", lambda n: review(encoded({"spec": many(n, int)})), 20_000),
    Case("empty objects", "view", lambda n: review(encoded({"spec": many(n, lambda _: {})})), 20_000),
    Case("many members", "view", lambda n: review(encoded({"spec": named(n, int)})), 20_000),
    Case("one long text", "view", lambda n: review(encoded({"spec": "x" * n})), 200_000),
    Case("runs of digits", "view", lambda n: review(encoded({"spec": many(n, lambda _: "1" * 299)})), 1_000),
    Case("one long number", "view", lambda n: review(b'{"spec": %s}' % (b"1" * n)), 100_000),
    Case("long fractions", "view", lambda n: review(b'{"spec": 0.%s}' % (b"1" * n)), 100_000),
    Case("a key as long as its members", "view", lambda n: review(encoded({"x" * n * 8: named(n, int)})), 8_000),
    Case("a key that stands there again and again", "view", lambda n: review(_again(n)), 20_000),
    Case("long keys twice each", "view", lambda n: review(_twice_each(n)), 2_000),
    Case("nested keys that stand twice", "view", lambda n: review(_nested(100, _again_text(n)).encode()), 8_000),
    Case("nested objects", "view", lambda n: review(("[" + ", ".join([_nested(100, "1")] * n) + "]").encode()), 100),
    Case("brackets that never close", "view", lambda n: review(b'{"a":' * n), 100_000),
]


def _again_text(n: int) -> str:
    return "{" + ", ".join(['"a": 1'] * n) + "}"


def _again(n: int) -> bytes:
    return _again_text(n).encode()


def _twice_each(n: int) -> bytes:
    return (
        "{" + ", ".join(f'"{number}{"x" * 100}": 1, "{number}{"x" * 100}": 2' for number in range(n)) + "}"
    ).encode()


YAML_CASES: Final = [
    Case("integers of base 60", "view", lambda n: _yaml("a: 1" + ":59" * n), 20_000),
    Case("integers of base 60 with a sign", "view", lambda n: _yaml("a: -190" + ":20" * n), 20_000),
    Case("fractions of base 60", "view", lambda n: _yaml("a: 1" + ":59" * n + ".5"), 20_000),
    Case("decimal digits", "view", lambda n: _yaml("a: " + "1" * n), 50_000),
    Case("binary digits", "view", lambda n: _yaml("a: 0b" + "1" * n), 50_000),
    Case("octal digits", "view", lambda n: _yaml("a: 0" + "7" * n), 50_000),
    Case("hexadecimal digits", "view", lambda n: _yaml("a: 0x" + "f" * n), 50_000),
    Case("underscores in a number", "view", lambda n: _yaml("a: 1" + "_" * n), 50_000),
    Case("a fraction of digits", "view", lambda n: _yaml("a: 0." + "1" * n + "e1"), 50_000),
    Case("members", "view", lambda n: _yaml("\n".join(f"k{number}: v" for number in range(n))), 2_000),
    Case("a key again and again", "view", lambda n: _yaml("k: v\n" * n), 2_000),
    Case("long keys again and again", "view", lambda n: _yaml(("k" * 100 + ": v\n") * n), 2_000),
    Case("merge keys", "view", lambda n: _yaml("a:\n" + "  <<: {b: 1}\n" * n), 1_000),
    Case("merged lists", "view", lambda n: _yaml("a:\n  <<: [" + "{b: 1}, " * n + "]\n"), 1_000),
    Case("anchors", "view", lambda n: _yaml("\n".join(f"k{number}: &a{number} v" for number in range(n))), 2_000),
    Case("aliases", "view", lambda n: _yaml("a: &a [x]\nb: [" + "*a, " * n + "]"), 2_000),
    Case("brackets", "view", lambda n: _yaml("[" * n), 20_000),
    Case("indentations", "view", lambda n: _yaml("- " * n), 20_000),
    Case("a long plain text", "view", lambda n: _yaml("a: " + "word " * n), 20_000),
    Case("a plain text of many lines", "view", lambda n: _yaml("a: b\n" + "  word\n" * n), 10_000),
    Case("a long quoted text", "view", lambda n: _yaml('a: "' + "\\u0041" * n + '"'), 20_000),
    Case("a block", "view", lambda n: _yaml("a: |\n" + "  word\n" * n), 10_000),
    Case("comments", "view", lambda n: _yaml("# x\n" * n + "a: b"), 20_000),
    Case("documents", "view", lambda n: _yaml("---\na: b\n" * n), 2_000),
    Case("tags", "view", lambda n: _yaml("\n".join(f"k{number}: !!str v" for number in range(n))), 2_000),
    Case("dates", "view", lambda n: _yaml("\n".join(f"k{number}: 2001-01-01" for number in range(n))), 2_000),
    Case("binary texts", "view", lambda n: _yaml("a: !!binary " + "QUFB" * n), 20_000),
    Case("sets", "view", lambda n: _yaml("a: !!set {" + ", ".join(f"k{number}" for number in range(n)) + "}"), 2_000),
    Case("ordered maps", "view", lambda n: _yaml("a: !!omap [" + "{a: b}, " * n + "]"), 2_000),
    Case("question marks", "view", lambda n: _yaml("? " * n), 5_000),
    Case("colons", "view", lambda n: _yaml("a" + ":" * n), 20_000),
    Case("a key in lists of keys", "view", lambda n: _yaml("a: {" + "? [x] : y, " * n + "}"), 2_000),
]

PROTOBUF_CASES: Final = [
    Case("data of a ConfigMap", "edit", lambda n: _protobuf(config_map(data=named(n, str))), 10_000),
    Case("one long value", "edit", lambda n: _protobuf(config_map(data={"a": "x" * n})), 200_000),
    Case("owners", "edit", lambda n: _protobuf(config_map(ownerReferences=many(n, lambda _: {}))), 10_000),
    Case("labels", "edit", lambda n: _protobuf(config_map(labels=named(n, str))), 10_000),
    Case(
        "bytes of a Secret",
        "edit",
        lambda n: _protobuf({**config_map(data=named(n, lambda _: "QUFB")), "kind": "Secret"}, SECRETS),
        10_000,
    ),
]

DECODERS: Final = [
    *JSON_CASES,
    *YAML_CASES,
    *PROTOBUF_CASES,
    Case("an object in JSON", "edit", lambda n: create(CONFIG_MAPS, config_map(data=named(n, str))), 10_000),
]
