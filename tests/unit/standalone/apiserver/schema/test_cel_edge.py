"""CEL in match conditions: what is true, what is false, what is an error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kvedge.standalone.apiserver.schema.cel_edge import CelError, check_condition, condition_holds

REQUEST = {"userInfo": {"username": "kvedge:handler:edge", "groups": ["kvedge:handlers"]}, "operation": "UPDATE"}
OBJECT = {"metadata": {"name": "web"}}
VARIABLES = {"object": OBJECT, "oldObject": None, "request": REQUEST | {"object": OBJECT}}


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("!has(object.metadata.deletionTimestamp)", True),
        ("has(object.metadata.name) && object.metadata.name == 'db'", False),
        ("request.userInfo.username.startsWith('kvedge:')", True),
        ("['a', 'kvedge:handlers'].exists(g, g in request.userInfo.groups)", True),
        ("oldObject == null", True),
        ("request.operation in ['CREATE']", False),
        ("request.object.metadata.name == 'web'", True),
        ("request['operation'] == 'UPDATE' && size(object) == 1", True),
        ("[object, request].exists(object, has(object.operation))", True),
        ("[request].all(r, r.object == object)", True),
        ("'object' in request", True),
        ("'object' == object.metadata.name", False),
        ("request.object == {'metadata': {'name': 'web'}} && object.metadata.name == 'web'", True),
        ("object == request.object && object.metadata.name == 'web'", True),
        ("{'object': {'x': 1}}.object.x == 1 && has(object.metadata)", True),
        ("(true ? object : oldObject).metadata.name == 'web'", True),
        ("[1, 2].map(n, size(object) + n) == [2, 3]", True),
        ("request.userInfo.groups.map(object, object + 's') == ['kvedge:handlerss']", True),
        ("{'a': object}.a.metadata.name == {'b': request}.b.object.metadata.name", True),
        ("object[('meta' + 'data')].name == 'web'", True),
        ("object\n  . metadata // of this\n  . name == 'web'", True),
    ],
)
def test_a_condition_is_true_or_false(expression: str, result: bool) -> None:
    assert condition_holds(expression, VARIABLES) is result


@pytest.mark.parametrize("expression", ["1 +", "", "x" * 5000, "object.metadata.name ==="])
def test_what_cannot_be_compiled_is_refused_when_it_is_written(expression: str) -> None:
    with pytest.raises(CelError):
        check_condition(expression)


@pytest.mark.parametrize("expression", ["object.spec.none == 1", "unknown.name == 'a'", "'text'", "1"])
def test_what_has_no_boolean_result_is_an_error(expression: str) -> None:
    with pytest.raises(CelError):
        condition_holds(expression, VARIABLES)


def test_the_librarys_command_line_tools_are_not_loaded() -> None:
    program = (
        "import sys; from kvedge.standalone.apiserver.schema.cel_edge import check_condition\n"
        "check_condition('true')\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('typer', 'prompt_toolkit', 'rich')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
