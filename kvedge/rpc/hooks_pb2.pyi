from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InfoParams(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class InfoResult(_message.Message):
    __slots__ = ("name", "hook_points", "versions")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOOK_POINTS_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    name: str
    hook_points: _containers.RepeatedCompositeFieldContainer[HookPoint]
    versions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., hook_points: _Optional[_Iterable[_Union[HookPoint, _Mapping]]] = ..., versions: _Optional[_Iterable[str]] = ...) -> None: ...

class HookPoint(_message.Message):
    __slots__ = ("name", "priority")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    priority: int
    def __init__(self, name: _Optional[str] = ..., priority: _Optional[int] = ...) -> None: ...

class OnDefineDomainParams(_message.Message):
    __slots__ = ("domain_xml", "vmi")
    DOMAIN_XML_FIELD_NUMBER: _ClassVar[int]
    VMI_FIELD_NUMBER: _ClassVar[int]
    domain_xml: bytes
    vmi: bytes
    def __init__(self, domain_xml: _Optional[bytes] = ..., vmi: _Optional[bytes] = ...) -> None: ...

class OnDefineDomainResult(_message.Message):
    __slots__ = ("domain_xml",)
    DOMAIN_XML_FIELD_NUMBER: _ClassVar[int]
    domain_xml: bytes
    def __init__(self, domain_xml: _Optional[bytes] = ...) -> None: ...

class PreCloudInitIsoParams(_message.Message):
    __slots__ = ("cloud_init_no_cloud_source", "vmi", "cloud_init_data")
    CLOUD_INIT_NO_CLOUD_SOURCE_FIELD_NUMBER: _ClassVar[int]
    VMI_FIELD_NUMBER: _ClassVar[int]
    CLOUD_INIT_DATA_FIELD_NUMBER: _ClassVar[int]
    cloud_init_no_cloud_source: bytes
    vmi: bytes
    cloud_init_data: bytes
    def __init__(self, cloud_init_no_cloud_source: _Optional[bytes] = ..., vmi: _Optional[bytes] = ..., cloud_init_data: _Optional[bytes] = ...) -> None: ...

class PreCloudInitIsoResult(_message.Message):
    __slots__ = ("cloud_init_no_cloud_source", "cloud_init_data")
    CLOUD_INIT_NO_CLOUD_SOURCE_FIELD_NUMBER: _ClassVar[int]
    CLOUD_INIT_DATA_FIELD_NUMBER: _ClassVar[int]
    cloud_init_no_cloud_source: bytes
    cloud_init_data: bytes
    def __init__(self, cloud_init_no_cloud_source: _Optional[bytes] = ..., cloud_init_data: _Optional[bytes] = ...) -> None: ...

class ShutdownParams(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShutdownResult(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
