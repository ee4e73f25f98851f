"""The signatures of the functions that CEL expressions can call, for the type checker.

For example, ``contains_string=.(string,string)bool`` gives an overload's name, its parameters and its result. The dot
marks a method: the first parameter is ``x`` in ``x.contains(y)``. ``T``, ``K`` and ``V`` stand for any type.

Sources: Kubernetes 1.36, the CEL environment `StoredExpressions`; cel-go's libraries.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final

import attrs

from kube_cel import types
from kube_cel.types import Type, TypePool

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TYPES", "Overload", "overloads_of"]

_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
#: How the lists library of cel-go names types.
_LONG_NAMES: Final = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}

_ORDER: Final = """
bool=bool,bool int64=int,int int64_double=int,double int64_uint64=int,uint uint64=uint,uint uint64_double=uint,double
uint64_int64=uint,int double=double,double double_int64=double,int double_uint64=double,uint string=string,string
bytes=bytes,bytes timestamp=timestamp,timestamp duration=duration,duration
"""
_ARITHMETIC: Final = {
    "_+_": """add_bytes=(bytes,bytes)bytes add_double=(double,double)double
        add_duration_duration=(duration,duration)duration add_duration_timestamp=(duration,timestamp)timestamp
        add_timestamp_duration=(timestamp,duration)timestamp add_int64=(int,int)int add_list=(list<T>,list<T>)list<T>
        add_string=(string,string)string add_uint64=(uint,uint)uint""",
    "_/_": "divide_double=(double,double)double divide_int64=(int,int)int divide_uint64=(uint,uint)uint",
    "_%_": "modulo_int64=(int,int)int modulo_uint64=(uint,uint)uint",
    "_*_": "multiply_double=(double,double)double multiply_int64=(int,int)int multiply_uint64=(uint,uint)uint",
    "-_": "negate_double=(double)double negate_int64=(int)int",
    "_-_": """subtract_double=(double,double)double subtract_duration_duration=(duration,duration)duration
        subtract_int64=(int,int)int subtract_timestamp_duration=(timestamp,duration)timestamp
        subtract_timestamp_timestamp=(timestamp,timestamp)duration subtract_uint64=(uint,uint)uint""",
}
_CORE: Final = {
    "_?_:_": "conditional=(bool,T,T)T",
    "_&&_": "logical_and=(bool,bool)bool",
    "_||_": "logical_or=(bool,bool)bool",
    "!_": "logical_not=(bool)bool",
    "@not_strictly_false": "not_strictly_false=(bool)bool",
    "_==_": "equals=(T,T)bool",
    "_!=_": "not_equals=(T,T)bool",
    "_[_]": """index_list=(list<T>,int)T index_map=(map<K,V>,K)V optional_list_index_int=(opt<list<T>>,int)opt<T>
        optional_map_index_value=(opt<map<K,V>>,K)opt<V>""",
    "_[?_]": """list_optindex_optional_int=(list<T>,int)opt<T>
        optional_list_optindex_optional_int=(opt<list<T>>,int)opt<T> map_optindex_optional_value=(map<K,V>,K)opt<V>
        optional_map_optindex_optional_value=(opt<map<K,V>>,K)opt<V>""",
    "@in": "in_list=(T,list<T>)bool in_map=(K,map<K,V>)bool",
    "size": """size_bytes=(bytes)int bytes_size=.(bytes)int size_list=(list<T>)int list_size=.(list<T>)int
        size_map=(map<K,V>)int map_size=.(map<K,V>)int size_string=(string)int string_size=.(string)int""",
    "type": "type=(T)type<T>",
    "bool": "bool_to_bool=(bool)bool string_to_bool=(string)bool",
    "bytes": "bytes_to_bytes=(bytes)bytes string_to_bytes=(string)bytes",
    "double": """double_to_double=(double)double int64_to_double=(int)double string_to_double=(string)double
        uint64_to_double=(uint)double""",
    "duration": """duration_to_duration=(duration)duration int64_to_duration=(int)duration
        string_to_duration=(string)duration""",
    "dyn": "to_dyn=(T)dyn",
    "int": """int64_to_int64=(int)int double_to_int64=(double)int duration_to_int64=(duration)int
        string_to_int64=(string)int timestamp_to_int64=(timestamp)int uint64_to_int64=(uint)int""",
    "string": """string_to_string=(string)string bool_to_string=(bool)string bytes_to_string=(bytes)string
        double_to_string=(double)string duration_to_string=(duration)string int64_to_string=(int)string
        timestamp_to_string=(timestamp)string uint64_to_string=(uint)string ip_to_string=(ip)string
        cidr_to_string=(cidr)string""",
    "timestamp": """timestamp_to_timestamp=(timestamp)timestamp int64_to_timestamp=(int)timestamp
        string_to_timestamp=(string)timestamp""",
    "uint": """uint64_to_uint64=(uint)uint double_to_uint64=(double)uint int64_to_uint64=(int)uint
        string_to_uint64=(string)uint""",
    "contains": "contains_string=.(string,string)bool",
    "endsWith": "ends_with_string=.(string,string)bool",
    "startsWith": "starts_with_string=.(string,string)bool",
    "matches": "matches=(string,string)bool matches_string=.(string,string)bool",
}
_TIMES: Final = {
    "getFullYear": "year",
    "getMonth": "month",
    "getDayOfYear": "day_of_year",
    "getDayOfMonth": "day_of_month",
    "getDate": "day_of_month_1_based",
    "getDayOfWeek": "day_of_week",
    "getHours": "hours",
    "getMinutes": "minutes",
    "getSeconds": "seconds",
    "getMilliseconds": "milliseconds",
}
_OPTIONALS: Final = {
    "optional.of": "optional_of=(V)opt<V>",
    "optional.ofNonZeroValue": "optional_ofNonZeroValue=(V)opt<V>",
    "optional.none": "optional_none=()opt<V>",
    "value": "optional_value=.(opt<V>)V",
    "hasValue": "optional_hasValue=.(opt<V>)bool",
    "or": "optional_or_optional=.(opt<V>,opt<V>)opt<V>",
    "orValue": "optional_orValue_value=.(opt<V>,V)V",
    "_?._": "select_optional_field=(dyn,string)opt<V>",
    "last": "list_last=.(list<V>)opt<V>",
    "first": "list_first=.(list<V>)opt<V>",
    "optional.unwrap": "optional_unwrap=(list<opt<V>>)list<V>",
    "unwrapOpt": "optional_unwrapOpt=.(list<opt<V>>)list<V>",
}
_STRINGS: Final = {
    "charAt": "string_char_at_int=.(string,int)string",
    "lowerAscii": "string_lower_ascii=.(string)string",
    "upperAscii": "string_upper_ascii=.(string)string",
    "trim": "string_trim=.(string)string",
    "replace": """string_replace_string_string=.(string,string,string)string
        string_replace_string_string_int=.(string,string,string,int)string""",
    "split": """string_split_string=.(string,string)list<string>
        string_split_string_int=.(string,string,int)list<string>""",
    "substring": "string_substring_int=.(string,int)string string_substring_int_int=.(string,int,int)string",
    "format": "string_format=.(string,list<dyn>)string",
    "strings.quote": "strings_quote=(string)string",
    "join": "list_join=.(list<string>)string list_join_string=.(list<string>,string)string",
    "find": "string_find_string=.(string,string)string",
    "findAll": """string_find_all_string=.(string,string)list<string>
        string_find_all_string_int=.(string,string,int)list<string>""",
}
_LISTS: Final = {
    "indexOf": """list_a_index_of_int=.(list<T>,T)int string_index_of_string=.(string,string)int
        string_index_of_string_int=.(string,string,int)int""",
    "lastIndexOf": """list_a_last_index_of_int=.(list<T>,T)int string_last_index_of_string=.(string,string)int
        string_last_index_of_string_int=.(string,string,int)int""",
    "slice": "list_slice=.(list<T>,int,int)list<T>",
    "flatten": "list_flatten=.(list<list<T>>)list<T> list_flatten_int=.(list<dyn>,int)list<dyn>",
    "lists.range": "lists_range=(int)list<int>",
    "reverse": "list_reverse=.(list<T>)list<T>",
    "distinct": "list_distinct=.(list<T>)list<T>",
    "sets.contains": "list_sets_contains_list=(list<T>,list<T>)bool",
    "sets.equivalent": "list_sets_equivalent_list=(list<T>,list<T>)bool",
    "sets.intersects": "list_sets_intersects_list=(list<T>,list<T>)bool",
    "cel.@mapInsert": """@mapInsert_map_key_value=(map<K,V>,K,V)map<K,V>
        @mapInsert_map_map=(map<K,V>,map<K,V>)map<K,V>""",
}
_FORMATS: Final = (
    "dns1123Label dns1123Subdomain dns1035Label qualifiedName dns1123LabelPrefix dns1123SubdomainPrefix "
    "dns1035LabelPrefix labelValue uri uuid byte date datetime"
)
_KUBERNETES: Final = {
    "includes": "dra_includes_dyn_dyn=.(dyn,dyn)bool",
    "quantity": "string_to_quantity=(string)quantity",
    "isQuantity": "is_quantity_string=(string)bool",
    "sign": "quantity_sign=(quantity)int",
    "isGreaterThan": """quantity_is_greater_than=.(quantity,quantity)bool
        semver_is_greater_than=.(semver,semver)bool""",
    "isLessThan": "quantity_is_less_than=.(quantity,quantity)bool semver_is_less_than=.(semver,semver)bool",
    "compareTo": "quantity_compare_to=.(quantity,quantity)int semver_compare_to=.(semver,semver)int",
    "asApproximateFloat": "quantity_get_float=.(quantity)double",
    "asInteger": "quantity_get_int=.(quantity)int",
    "isInteger": "quantity_is_integer=.(quantity)bool",
    "add": "quantity_add=.(quantity,quantity)quantity quantity_add_int=.(quantity,int)quantity",
    "sub": "quantity_sub=.(quantity,quantity)quantity quantity_sub_int=.(quantity,int)quantity",
    "semver": "string_to_semver=(string)semver string_bool_to_semver=(string,bool)semver",
    "isSemver": "is_semver_string=(string)bool is_semver_string_bool=(string,bool)bool",
    "major": "semver_major=.(semver)int",
    "minor": "semver_minor=.(semver)int",
    "patch": "semver_patch=.(semver)int",
    "url": "string_to_url=(string)url",
    "isURL": "is_url_string=(string)bool",
    "getScheme": "url_get_scheme=.(url)string",
    "getHost": "url_get_host=.(url)string",
    "getHostname": "url_get_hostname=.(url)string",
    "getPort": "url_get_port=.(url)string",
    "getEscapedPath": "url_get_escaped_path=.(url)string",
    "getQuery": "url_get_query=.(url)map<string,list<string>>",
    "ip": "string_to_ip=(string)ip cidr_ip=.(cidr)ip",
    "isIP": "is_ip=(string)bool",
    "ip.isCanonical": "ip_is_canonical=(string)bool",
    "family": "ip_family=.(ip)int",
    "isUnspecified": "ip_is_unspecified=.(ip)bool",
    "isLoopback": "ip_is_loopback=.(ip)bool",
    "isLinkLocalMulticast": "ip_is_link_local_multicast=.(ip)bool",
    "isLinkLocalUnicast": "ip_is_link_local_unicast=.(ip)bool",
    "isGlobalUnicast": "ip_is_global_unicast=.(ip)bool",
    "cidr": "string_to_cidr=(string)cidr",
    "isCIDR": "is_cidr=(string)bool",
    "containsIP": "cidr_contains_ip_string=.(cidr,string)bool cidr_contains_ip_ip=.(cidr,ip)bool",
    "containsCIDR": "cidr_contains_cidr_string=.(cidr,string)bool cidr_contains_cidr=.(cidr,cidr)bool",
    "prefixLength": "cidr_prefix_length=.(cidr)int",
    "masked": "cidr_masked=.(cidr)cidr",
    "validate": "format-validate=.(format,string)opt<list<string>>",
    "format.named": "format-named=(string)opt<format>",
    **{f"format.{name}": f"format.{name}=()format" for name in _FORMATS.split()},
}


def _generated() -> Iterator[tuple[str, str]]:
    """Yield the functions that come in one form per type."""
    pairs = [pair.split("=") for pair in _ORDER.split()]
    for operator, name in (("_<_", "less"), ("_<=_", "less_equals"), ("_>_", "greater"), ("_>=_", "greater_equals")):
        yield operator, " ".join(f"{name}_{suffix}=({types_})bool" for suffix, types_ in pairs)
    for function, name in _TIMES.items():
        zone = "timestamp_to_seconds_tz" if name == "seconds" else f"timestamp_to_{name}_with_tz"
        text = f"timestamp_to_{name}=.(timestamp)int {zone}=.(timestamp,string)int"
        if name in ("hours", "minutes", "seconds", "milliseconds"):
            text += f" duration_to_{name}=.(duration)int"
        yield function, text
    yield "isSorted", " ".join(f"list_{each}_is_sorted_bool=.(list<{each}>)bool" for each in _COMPARABLE)
    for function in ("min", "max"):
        yield function, " ".join(f"list_{each}_{function}_{each}=.(list<{each}>){each}" for each in _COMPARABLE)
    summable = ("int", "uint", "double", "duration")
    yield "sum", " ".join(f"list_{each}_sum_{each}=.(list<{each}>){each}" for each in summable)
    named = [(each, _LONG_NAMES.get(each, each)) for each in _COMPARABLE]
    yield "sort", " ".join(f"list_{name}_sort=.(list<{each}>)list<{each}>" for each, name in named)
    keys = " ".join(f"list_{name}_sortByAssociatedKeys=.(list<T>,list<{each}>)list<T>" for each, name in named)
    yield "@sortByAssociatedKeys", keys


_TEXTS: Final = {
    **_ARITHMETIC, **_CORE, **_OPTIONALS, **_STRINGS, **_LISTS, **_KUBERNETES, **dict(_generated())
}  # fmt: skip


@attrs.frozen(eq=False)
class Overload:
    """A form of a function."""

    id: str
    is_member: bool
    args: tuple[Type, ...]
    result: Type
    #: Of its signature.
    params: tuple[str, ...]


_POOL: Final = TypePool()

TYPES: Final[dict[str, Type]] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "int": types.INT,
    "string": types.STRING,
    "uint": types.UINT,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "dyn": types.DYN,
    "quantity": Type("struct", "kubernetes.Quantity"),
    "semver": Type("struct", "kubernetes.Semver"),
    "url": Type("struct", "kubernetes.URL"),
    "format": Type("struct", "kubernetes.NamedFormat"),
    "ip": Type("opaque", "net.IP"),
    "cidr": Type("opaque", "net.CIDR"),
    **{name: _POOL.param(name) for name in "TKV"},
}
"""Types by the names that signatures use."""

_WORD: Final = re.compile(r"[^<>,]+|[<>,]")


@functools.cache
def overloads_of(function: str) -> tuple[Overload, ...]:
    """Return the forms of a function, none where there is no such function."""
    return tuple(_read(*text.split("=", 1)) for text in _TEXTS.get(function, "").split())


def _read(name: str, signature: str) -> Overload:
    is_member = signature.startswith(".")
    inner, _, result = signature.lstrip(".")[1:].partition(")")
    args = _types(inner)
    (made,) = _types(result)
    params = tuple(each for each in "TKV" if re.search(rf"\b{each}\b", signature))
    return Overload(name, is_member, args, made, params)


def _types(text: str) -> tuple[Type, ...]:
    words = _WORD.findall(text)
    found: list[Type] = []
    while words:
        found.append(_type(words))
        if words:
            words.pop(0)
    return tuple(found)


def _type(words: list[str]) -> Type:
    name = words.pop(0)
    if not words or words[0] != "<":
        return TYPES[name]
    params: list[Type] = []
    while words[0] in "<,":
        words.pop(0)
        params.append(_type(words))
    words.pop(0)
    match name:
        case "list":
            return _POOL.list_of(params[0])
        case "map":
            return _POOL.map_of(params[0], params[1])
        case "type":
            return _POOL.type_of(params[0])
    return _POOL.optional_of(params[0])
