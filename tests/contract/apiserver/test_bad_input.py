"""What nobody should send: refused by both servers, and both go on serving."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import pytest

from tests.contract.apiserver.conftest import Server
from tests.support.api_client import APPLY, JSON, JSON_PATCH, MERGE, ApiClient, names
from tests.support.raw_http import RawHttp
from tests.support.widgets import config_map, config_maps, widget, widgets

pytestmark = pytest.mark.contract

YAML = "application/yaml"


@pytest.fixture
def raw(api_server: Server) -> RawHttp:
    """The administrator, byte by byte."""
    return RawHttp(api_server.url, api_server.admin.context)


@pytest.fixture(autouse=True)
def still_serves(admin: ApiClient, namespace: str) -> Iterator[None]:
    """After whatever was sent, an honest client gets through and nothing was made."""
    yield
    left = names(admin.get(config_maps(namespace)))
    assert [name for name in left if name not in ("kube-root-ca.crt", "there")] == []
    admin.made(config_maps(namespace), config_map("honest"))


def manifest(inner: bytes, name: bytes = b"odd") -> bytes:
    """A ConfigMap in JSON with something in it."""
    return b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"' + name + b'"},' + inner + b"}"


def bomb() -> bytes:
    """YAML of 300 bytes that stands for 9^8 items."""
    lines = [b"a: &a [x,x,x,x,x,x,x,x,x]"]
    for letter in range(ord("b"), ord("j")):
        lines.append(b"%c: &%c [%s]" % (letter, letter, b",".join([b"*%c" % (letter - 1)] * 9)))
    return b"\n".join(lines)


_BODIES = {
    "an array of 100,000 levels": (manifest(b'"x":' + b"[" * 100_000 + b"]" * 100_000), JSON),
    "YAML of 50,000 open brackets": (b"a: " + b"[" * 50_000, YAML),
    "YAML of 3,000 levels": (b"kind: ConfigMap\nx: " + b"[" * 3000 + b"]" * 3000, YAML),
    "a YAML bomb": (bomb(), YAML),
    "a YAML tag that calls a program": (b"data: !!python/object/apply:os.system [id]", YAML),
    "YAML that ends in the middle": (b"a: {b: [c", YAML),
    "no JSON": (b"{", JSON),
    "nothing": (b"", JSON),
    "null": (b"null", JSON),
    "a list": (b"[]", JSON),
    "a text": (b'"x"', JSON),
    "something behind the object": (manifest(b'"data":{}') + b" x", JSON),
    "two objects": (manifest(b'"data":{}') * 2, JSON),
    "a byte order mark": (b"\xef\xbb\xbf" + manifest(b'"data":{}'), JSON),
    "UTF-16": (manifest(b'"data":{}').decode().encode("utf-16"), JSON),
    "NaN": (manifest(b'"data":NaN'), JSON),
    "a number beyond all floats": (manifest(b'"data":{"a":1e400}'), JSON),
    "an integer of 100,000 digits": (manifest(b'"data":{"a":' + b"9" * 100_000 + b"}"), JSON),
    "an object of 4 MB": (manifest(b'"data":{"a":"' + b"x" * (4 << 20) + b'"}'), JSON),
}


@pytest.mark.parametrize(("body", "content_type"), _BODIES.values(), ids=_BODIES)
def test_a_body_that_makes_no_sense_is_refused(
    admin: ApiClient, namespace: str, body: bytes, content_type: str
) -> None:
    answer = admin.ask("POST", config_maps(namespace), body, content_type)
    assert answer.status in (400, 413, 415, 422), answer.body
    assert answer.json["kind"] == "Status"


def test_200_mb_in_200_kb_are_refused(admin: ApiClient, namespace: str) -> None:
    answer = admin.ask("POST", config_maps(namespace), gzip.compress(b" " * (200 << 20)), JSON)
    assert answer.status in (400, 413, 415, 422), answer.body
    assert answer.json["kind"] == "Status"


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/xml", "multipart/form-data; boundary=x", "application/json-patch+json"]
)
def test_a_body_of_another_type_is_refused(admin: ApiClient, namespace: str, content_type: str) -> None:
    answer = admin.ask("POST", config_maps(namespace), manifest(b'"data":{}'), content_type)
    assert (answer.status, answer.json["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize("content_type", [MERGE, JSON_PATCH, APPLY])
def test_patches_that_make_no_sense_are_refused(admin: ApiClient, namespace: str, content_type: str) -> None:
    admin.made(config_maps(namespace), config_map("there"))
    before = admin.get(config_maps(namespace, "there")).json
    for body in (b"", b"{", b"7", b'"x"', b"\x00", b"[" * 100_000, b"[" * 3000 + b"]" * 3000):
        answer = admin.ask(
            "PATCH",
            config_maps(namespace, "there"),
            body,
            content_type,
            fieldManager="m" if content_type == APPLY else "",
        )
        assert 400 <= answer.status <= 500, (body[:20], answer.body)
    assert admin.get(config_maps(namespace, "there")).json == before


def test_a_json_patch_cannot_multiply(admin: ApiClient, namespace: str) -> None:
    admin.made(config_maps(namespace), config_map("there", text="x" * 1000))
    operations = [{"op": "copy", "from": "/data", "path": f"/data/copy{number}"} for number in range(40)]
    answer = admin.patch(config_maps(namespace, "there"), operations, JSON_PATCH)
    assert answer.status in (413, 422, 400), answer.body


def test_an_index_of_5000_digits_is_no_place(admin: ApiClient, namespace: str) -> None:
    path = widgets(namespace, "w")
    admin.made(widgets(namespace), widget("w", parts=[{"name": "a"}]))
    for operation in ("add", "remove", "replace", "test"):
        step = {"op": operation, "path": f"/spec/parts/{'9' * 5000}", "value": {"name": "b"}}
        assert admin.patch(path, [step], JSON_PATCH).status in (400, 422)


def test_numbers_that_are_no_numbers_do_not_get_in(admin: ApiClient, namespace: str) -> None:
    for text in (b".inf", b"-.inf", b".nan"):
        body = (
            b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 1, free: {x: " + text + b"}}"
        )
        assert admin.ask("POST", widgets(namespace), body, YAML).status == 400, text
    assert names(admin.get(widgets(namespace))) == []


def test_keys_that_stand_twice_are_warned_of_or_refused(admin: ApiClient, namespace: str) -> None:
    body = b'{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"size":1, "size":2}}'
    strict = admin.ask("POST", widgets(namespace), body, fieldValidation="Strict")
    assert strict.status == 400
    assert 'strict decoding error: duplicate field "spec.size"' in strict.message
    warned = admin.ask("POST", widgets(namespace), body, fieldValidation="Warn", dryRun="All")
    assert warned.status == 201
    assert 'duplicate field \\"spec.size\\"' in warned.headers["Warning"]
    silent = admin.ask("POST", widgets(namespace), body, fieldValidation="Ignore", dryRun="All")
    assert "Warning" not in silent.headers
    assert silent.json["spec"]["size"] == 2


def test_a_warning_about_an_odd_name_can_be_sent(admin: ApiClient, namespace: str) -> None:
    body = widget("w", 1, **{"odd\x00\x7f\r\nX-Injected: yes": 1})
    answer = admin.post(widgets(namespace), body, fieldValidation="Warn", dryRun="All")
    assert answer.status == 201
    assert "X-Injected" not in answer.headers
    # A kube-apiserver leaves a warning out that it cannot send.
    assert "unknown field" in answer.headers.get("Warning", "unknown field")


def test_an_object_does_not_grow_beyond_what_is_stored(admin: ApiClient, namespace: str) -> None:
    path = widgets(namespace, "w")
    admin.made(widgets(namespace), widget("w", free={}))
    statuses = [admin.patch(path, {"spec": {"free": {f"k{number}": "x" * 1_000_000}}}).status for number in range(5)]
    assert statuses[0] == 200
    assert statuses[-1] in (413, 500)
    assert len(admin.get(path).body) < 4 << 20


@pytest.mark.parametrize("method", ["FOO", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_a_method_that_nobody_serves_is_refused(raw: RawHttp, namespace: str, method: str) -> None:
    status, _ = raw.say(f"{method} {config_maps(namespace)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert status in (400, 404, 405)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/api/v1/namespaces/{}/configmaps"),
        ("PATCH", "/api/v1/namespaces/{}/configmaps"),
        ("POST", "/api/v1/namespaces/{}/configmaps/a"),
        ("POST", "/api/v1/namespaces/{}/configmaps/a/status"),
        ("GET", "/api/v1/namespaces/{}/configmaps/a/b/c/d"),
        ("DELETE", "/api/v1/namespaces/{}/pods/a/log"),
        ("POST", "/version"),
    ],
)
def test_a_method_in_the_wrong_place_is_refused(admin: ApiClient, namespace: str, method: str, path: str) -> None:
    assert admin.ask(method, path.format(namespace), {}).status in (403, 404, 405)


@pytest.mark.parametrize(
    "path",
    [
        b"/api/v1/../v1/namespaces/secret",
        b"/api/v1/%2e%2e/v1/namespaces/secret",
        b"/api/v1/./namespaces/default",
        b"//api/v1/namespaces/default",
        b"/api/v1//namespaces/default",
        b"/api/v1/namespaces/%2fdefault",
        b"/api/v1/namespaces/default%00",
        b"/api/v1/namespaces/default%0d%0aX: y",
        b"/api/v1/namespaces/def%ffault",
        b"/api/v1/namespaces/default;x=y",
        b"/api/v1/namespaces/default%3fx",
        b"/api/v1/namespaces/%zz",
        b"/api/v1/namespaces/\xff",
        b"/api/v1/namespaces/" + b"a" * 5000,
        b"/" + b"a/" * 20_000,
        b"api/v1/namespaces/default",
        b"*",
        b"",
    ],
)
def test_tricks_with_paths_lead_to_nothing(raw: RawHttp, path: bytes) -> None:
    status, answer = raw.get(path)
    # A redirect to the plain path, as Go's servers give, is no harm either.
    assert status in (301, 307, 308, 400, 404, 414), answer[:300]


def test_a_slash_in_disguise_separates_nothing(embedded_server: Server) -> None:
    # The real server takes it for a slash; an authorizer in front of it may not.
    raw = RawHttp(embedded_server.url, embedded_server.admin.context)
    assert raw.get(b"/api/v1/namespaces/default%2fconfigmaps")[0] == 404


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "abc"},
        {"limit": "9" * 5000},
        {"limit": "99999999999999999999"},
        {"resourceVersion": "abc"},
        {"resourceVersion": "-1"},
        {"resourceVersion": "9" * 5000},
        {"watch": "true", "timeoutSeconds": "abc"},
        {"watch": "true", "timeoutSeconds": "9" * 5000},
        {"continue": "x" * 3000},
        {"continue": "eyJyZXZpc2lvbiI6MX0"},
        {"labelSelector": "(" * 2000},
        {"labelSelector": "a==b==c"},
        {"labelSelector": "a in (" + "x" * 3000 + ")"},
        {"fieldSelector": "spec.nonsense=1"},
        {"fieldSelector": "=" * 1000},
    ],
    ids=lambda query: " ".join(f"{key}={value[:12]}" for key, value in query.items()),
)
def test_a_query_that_makes_no_sense_is_refused(admin: ApiClient, namespace: str, query: dict[str, str]) -> None:
    answer = admin.get(config_maps(namespace), **query)
    assert answer.status == 400, answer.body


def test_a_query_may_be_long(admin: ApiClient, namespace: str) -> None:
    admin.made(config_maps(namespace), config_map("there", labels={"x": "v999"}))
    values = ",".join(f"v{number}" for number in range(2000))
    assert names(admin.get(config_maps(namespace), labelSelector=f"x in ({values})")) == ["there"]
    many = ",".join(f"k{number}!=v" for number in range(700))
    assert "there" in names(admin.get(config_maps(namespace), labelSelector=many))
    assert admin.get(config_maps(namespace), limit="-1").status == 200
    assert admin.get(config_maps(namespace), pretty="true", unknown="option").status == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /version HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 2_000_000 + b"\r\n\r\n",
        b"GET /version HTTP/1.1\r\nHost: x\r\n"
        + b"".join(b"X%d: a\r\n" % number for number in range(100_000))
        + b"\r\n",
        b"GET /" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /version HTTP/1.1\r\n\r\n",
        b"GET /version HTTP/9.9\r\nHost: x\r\n\r\n",
        b"\x00\x01garbage\r\n\r\n",
        b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"POST /version HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, nonsense\r\n\r\n0\r\n\r\n",
    ],
    ids=[
        "a header of 2 MB",
        "100,000 headers",
        "a path of 2 MB",
        "no host",
        "HTTP 9.9",
        "garbage",
        "a negative length",
        "two lengths",
        "an unknown encoding",
    ],
)
def test_what_is_no_request_is_refused(raw: RawHttp, head: bytes) -> None:
    status, answer = raw.say(head)
    assert status == 0 or 400 <= status <= 505, answer[:200]


def test_a_body_that_is_not_what_was_announced_is_refused(raw: RawHttp, namespace: str) -> None:
    start = f"POST {config_maps(namespace)} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode()
    status, _ = raw.say(start + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n")
    assert status in (0, 400, 500)


def test_plain_text_on_the_tls_port_is_hung_up_on(raw: RawHttp) -> None:
    connection = raw.connect()
    connection.sendall(b"GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    try:
        while chunk := connection.recv(4096):
            answer += chunk
    except ConnectionResetError:
        # Hung up on while something was still unread.
        assert answer == b""
    finally:
        connection.close()
    assert answer == b"" or b"400 Bad Request" in answer


def test_a_document_of_100_levels_goes_everywhere_that_a_flat_one_does(admin: ApiClient, namespace: str) -> None:
    deep: object = 1
    for _ in range(100):
        deep = {"a": deep}
    path = widgets(namespace, "w")
    admin.made(widgets(namespace), widget("w", free={"deep": deep}))
    obj = admin.get(path).json
    obj["spec"]["size"] = 2
    assert admin.put(path, obj).status == 200
    assert admin.patch(path, {"spec": {"free": {"again": deep}}}).status == 200
    assert (
        admin.patch(path, [{"op": "copy", "from": "/spec/free/deep", "path": "/spec/free/b"}], JSON_PATCH).status == 200
    )
    applied = json.dumps(widget("w", 2, free={"deep": deep})).encode()
    assert admin.ask("PATCH", path, applied, APPLY, fieldManager="m", force="true").status == 200
    watch = admin.watch(widgets(namespace))
    assert watch.wait(1)[0]["object"]["spec"]["free"]["b"] == deep
    watch.close()
    assert admin.delete(path).status == 200
