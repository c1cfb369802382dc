"""Reads the protobuf form of a Swagger 2.0 document with Google's library, as an oracle for our own writer.

The messages are those of gnostic's OpenAPIv2.proto, as far as Kubernetes' documents use them.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# name -> (field, number, type); a type with a capital is a message, a * makes it repeated.
_MESSAGES: dict[str, list[tuple[str, int, str]]] = {
    "Document": [
        ("swagger", 1, "string"),
        ("info", 2, "Info"),
        ("paths", 8, "Paths"),
        ("definitions", 9, "Definitions"),
    ],
    "Info": [("title", 1, "string"), ("version", 2, "string")],
    "Paths": [("path", 2, "NamedPathItem*")],
    "NamedPathItem": [("name", 1, "string"), ("value", 2, "PathItem")],
    "PathItem": [
        ("get", 2, "Operation"),
        ("put", 3, "Operation"),
        ("post", 4, "Operation"),
        ("delete", 5, "Operation"),
        ("patch", 8, "Operation"),
        ("parameters", 9, "ParametersItem*"),
    ],
    "Operation": [
        ("description", 3, "string"),
        ("operation_id", 5, "string"),
        ("produces", 6, "string*"),
        ("consumes", 7, "string*"),
        ("parameters", 8, "ParametersItem*"),
        ("responses", 9, "Responses"),
        ("vendor_extension", 13, "NamedAny*"),
    ],
    "ParametersItem": [("parameter", 1, "Parameter")],
    "Parameter": [("body_parameter", 1, "BodyParameter"), ("non_body_parameter", 2, "NonBodyParameter")],
    "BodyParameter": [("name", 2, "string"), ("in", 3, "string"), ("required", 4, "bool"), ("schema", 5, "Schema")],
    "NonBodyParameter": [("query_parameter_sub_schema", 3, "Query"), ("path_parameter_sub_schema", 4, "PathParameter")],
    "Query": [
        ("required", 1, "bool"),
        ("in", 2, "string"),
        ("description", 3, "string"),
        ("name", 4, "string"),
        ("type", 6, "string"),
    ],
    "PathParameter": [
        ("required", 1, "bool"),
        ("in", 2, "string"),
        ("description", 3, "string"),
        ("name", 4, "string"),
        ("type", 5, "string"),
    ],
    "Responses": [("response_code", 1, "NamedResponseValue*")],
    "NamedResponseValue": [("name", 1, "string"), ("value", 2, "ResponseValue")],
    "ResponseValue": [("response", 1, "Response")],
    "Response": [("description", 1, "string"), ("schema", 2, "SchemaItem")],
    "SchemaItem": [("schema", 1, "Schema")],
    "Definitions": [("additional_properties", 1, "NamedSchema*")],
    "NamedSchema": [("name", 1, "string"), ("value", 2, "Schema")],
    "Schema": [
        ("_ref", 1, "string"),
        ("format", 2, "string"),
        ("description", 4, "string"),
        ("default", 5, "Any"),
        ("maximum", 7, "double"),
        ("minimum", 9, "double"),
        ("max_length", 11, "int64"),
        ("min_items", 15, "int64"),
        ("pattern", 13, "string"),
        ("required", 19, "string*"),
        ("enum", 20, "Any*"),
        ("additional_properties", 21, "AdditionalPropertiesItem"),
        ("type", 22, "TypeItem"),
        ("items", 23, "ItemsItem"),
        ("properties", 25, "Definitions"),
        ("vendor_extension", 31, "NamedAny*"),
    ],
    "AdditionalPropertiesItem": [("schema", 1, "Schema")],
    "TypeItem": [("value", 1, "string*")],
    "ItemsItem": [("schema", 1, "Schema*")],
    "NamedAny": [("name", 1, "string"), ("value", 2, "Any")],
    "Any": [("yaml", 2, "string")],
}
_SCALARS = {"string": 9, "bool": 8, "double": 1, "int64": 3}


def parse(content: bytes) -> Any:
    """The Document message; fails on what is no protobuf, and on fields that the document does not have."""
    file = descriptor_pb2.FileDescriptorProto(name="swagger_message.proto", package="swagger", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number, label=3 if kind.endswith("*") else 1)
            plain = kind.rstrip("*")
            if plain in _SCALARS:
                added.type = _SCALARS[plain]
            else:
                added.type = 11
                added.type_name = f".swagger.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    document = message_factory.GetMessageClass(pool.FindMessageTypeByName("swagger.Document"))()
    document.ParseFromString(content)
    # Writing a message keeps what it does not know: the same size without it means that everything was known.
    known = document.ByteSize()
    document.DiscardUnknownFields()
    assert document.ByteSize() == known
    return document
