"""Columns as they are stored to what is hashed and sent: one canonical value, whatever its physical type (RE16).

Threats. Spark's xxhash64 skips NULL and the boundaries of arrays, so that different rows hash alike; it hashes equal
values of two types differently, so that equal rows do not. Text depends on the session's time zone and drops NULL.

Invariant. Two rows have the same hash inputs if and only if their canonical values are equal, column by column; 0.0
equals -0.0, and NaN equals NaN. Text is compared as bytes: Unicode is not normalised (RE16).

Argument. Each column is cast to the type that the spec declares before anything else. A mask says which columns are
NULL, and each list says of each element whether it is, and how many there are; so the chain of values that follows can
be taken apart in one way only. Maps are lists of entries, sorted by key; structs are flattened.

Casts are of kind to the same kind, or integers to decimals, and never lose digits: else ReplicaFailed SCHEMA. What has
no canonical type is UNSUPPORTED.

On the wire a value is JSON: long and boolean as such, double as such or "NaN", "Infinity", "-Infinity"; decimals as
text with all digits of their scale; binary in base64; date as 2024-01-31; timestamp as microseconds since 1970, UTC;
timestamp_ntz as text; an array as a list, a map as a list of {"key", "value"} sorted by key, a struct as an object.
"""

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody who writes for Spark calls it
from pyspark.sql import types as T  # noqa: N812 (its customary name)

from topolog.events.errors import ReplicaFailed
from topolog.events.tree_spec import Column, TreeSpec

_PLAIN = {
    T.BooleanType: "boolean",
    T.ByteType: "long",
    T.ShortType: "long",
    T.IntegerType: "long",
    T.LongType: "long",
    T.FloatType: "double",
    T.DoubleType: "double",
    T.StringType: "string",
    T.CharType: "string",
    T.VarcharType: "string",
    T.BinaryType: "binary",
    T.DateType: "date",
    T.TimestampType: "timestamp",
    T.TimestampNTZType: "timestamp_ntz",
}
_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_MASK_BITS = 62
SCHEMA, UNSUPPORTED = "SCHEMA", "UNSUPPORTED"
JSON = {"ignoreNullFields": "false"}
"""How rows become JSON: a NULL that was dropped would be no column at all (RE16)."""


def columns_of(schema: T.StructType) -> tuple[Column, ...]:
    """Each column with the canonical type that suits it; raises ReplicaFailed."""
    return tuple(Column(field.name, canonical_type(field.name, field.dataType)) for field in schema)


def canonical_type(name: str, stored: T.DataType) -> str:
    """As `events.tree_spec.Column` writes types."""
    if isinstance(stored, T.DecimalType):
        return f"decimal({stored.precision},{stored.scale})"
    if isinstance(stored, T.ArrayType):
        return f"array<{canonical_type(name, stored.elementType)}>"
    if isinstance(stored, T.MapType):
        return f"map<{canonical_type(name, stored.keyType)},{canonical_type(name, stored.valueType)}>"
    if isinstance(stored, T.StructType):
        fields = (f"{each.name}:{canonical_type(f'{name}.{each.name}', each.dataType)}" for each in stored)
        return f"struct<{','.join(fields)}>"
    if (plain := _PLAIN.get(type(stored))) is None:
        raise ReplicaFailed(
            UNSUPPORTED,
            f"Column {name} is of type {stored.simpleString()}, which has no canonical form.",
            hint="Name the columns to compare without it.",
        )
    return plain


def spark_type(declared: Column) -> T.DataType:
    """A declared type as Spark's; raises ReplicaFailed for a text that is none of ours."""
    from pyspark.errors import ParseException

    try:
        stored = T.DataType.fromDDL(declared.type)
    except ParseException as error:
        raise ReplicaFailed(
            UNSUPPORTED, f"{declared.type!r}, the type of {declared.name}, is none that is known."
        ) from error
    canonical_type(declared.name, stored)
    return stored


def fields_of(columns: Iterable[Column]) -> list[T.StructField]:
    """Declared columns as Spark's; raises ReplicaFailed."""
    return [T.StructField(each.name, spark_type(each)) for each in columns]


def canonical(frame: DataFrame, columns: Sequence[Column], keep: Sequence[str] = ()) -> DataFrame:
    """These columns, each in its declared type and in this order, and those to keep as they are.

    Raises ReplicaFailed.
    """
    stored = {field.name: field.dataType for field in frame.schema}
    if missing := [each.name for each in columns if each.name not in stored]:
        raise ReplicaFailed(SCHEMA, f"There is no column {', '.join(missing)}.", hint=f"There are {', '.join(stored)}.")
    chosen = []
    for each in columns:
        wanted = spark_type(each)
        if not _fits(stored[each.name], wanted):
            raise ReplicaFailed(
                SCHEMA,
                f"Column {each.name} is stored as {stored[each.name].simpleString()}, "
                f"which is no {each.type} without loss.",
                hint="Name the columns and types to compare, such that each replica's can be cast to them.",
            )
        chosen.append(column(each.name).cast(wanted).alias(each.name))
    return frame.select(*chosen, *keep)


def column(name: str) -> Expression:
    """A name with a dot in it is one column, too."""
    return F.col(f"`{name.replace('`', '``')}`")


def masks(values: Sequence[Expression]) -> list[Expression]:
    """Longs whose bits say which of these are NULL (RE16)."""
    found = []
    for start in range(0, len(values), _MASK_BITS):
        part = values[start : start + _MASK_BITS]
        bits = (F.when(value.isNull(), F.lit(1 << place)).otherwise(F.lit(0)) for place, value in enumerate(part))
        found.append(reduce(lambda left, right: left.bitwiseOR(right), (bit.cast("bigint") for bit in bits)))
    return found


def hash_inputs(columns: Iterable[T.StructField]) -> list[Expression]:
    """What is hashed of canonical columns: masks, then values; injective, see above."""
    flags: list[Expression] = []
    values: list[Expression] = []
    for field in columns:
        _flatten(column(field.name), field.dataType, flags, values)
    return [*masks(flags), *values]


def wire(fields: Sequence[T.StructField]) -> Expression:
    """The JSON object of these canonical columns by name, by which rows are sent."""
    return F.to_json(F.struct(*(_to_wire(column(each.name), each.dataType).alias(each.name) for each in fields)), JSON)


def key_text(fields: Sequence[T.StructField]) -> Expression:
    """The JSON list of these canonical columns, by which rows are named."""
    lists = [F.to_json(F.array(_to_wire(column(each.name), each.dataType)), JSON) for each in fields]
    inner = (F.substring(each, F.lit(2), F.length(each) - 2) for each in lists)
    return F.concat(F.lit("["), F.concat_ws(",", *inner), F.lit("]"))


def from_wire(text: Expression, fields: Sequence[T.StructField]) -> list[Expression]:
    """The canonical columns that such a JSON object stands for."""
    schema = T.StructType([T.StructField(field.name, _wire_type(field.dataType)) for field in fields])
    parsed = F.from_json(text, schema, {"mode": "FAILFAST"})
    return [_from_wire(parsed.getField(field.name), field.dataType).alias(field.name) for field in fields]


def key_fields(schema: T.StructType, spec: TreeSpec) -> list[T.StructField]:
    """Of canonical columns those of the key, in its order; raises ReplicaFailed for one that cannot be compared."""
    fields = [schema[name] for name in spec.key]
    for field in fields:
        if "map<" in field.dataType.simpleString():
            raise ReplicaFailed(UNSUPPORTED, f"Column {field.name} is a map: it can be no key.")
    return fields


def text(value: Expression, stored: T.DataType) -> Expression:
    """A canonical value as text that is equal only for equal values; NULL for NULL."""
    sent = _to_wire(value, stored)
    if isinstance(stored, T.BinaryType):
        return F.base64(value)
    return F.to_json(F.struct(sent.alias("v")), JSON) if _is_nested(stored) else sent.cast("string")


def _is_nested(stored: T.DataType) -> bool:
    return isinstance(stored, T.ArrayType | T.MapType | T.StructType)


def _fits(stored: T.DataType, wanted: T.DataType) -> bool:
    """Whether each value of the one is a value of the other; overflow of an integer is left to Spark, which is loud."""
    if isinstance(wanted, T.DecimalType):
        if isinstance(stored, _INTEGERS):
            return True
        return isinstance(stored, T.DecimalType) and stored.scale <= wanted.scale
    if isinstance(stored, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return _fits(stored.elementType, wanted.elementType)
    if isinstance(stored, T.MapType) and isinstance(wanted, T.MapType):
        return _fits(stored.keyType, wanted.keyType) and _fits(stored.valueType, wanted.valueType)
    if isinstance(stored, T.StructType) and isinstance(wanted, T.StructType):
        pairs = list(zip(stored, wanted, strict=False))
        return len(stored) == len(wanted) and all(
            one.name == other.name and _fits(one.dataType, other.dataType) for one, other in pairs
        )
    return _PLAIN.get(type(stored), "") == _PLAIN.get(type(wanted), "-")


def _flatten(value: Expression, stored: T.DataType, flags: list[Expression], values: list[Expression]) -> None:
    flags.append(value)
    if isinstance(stored, T.StructType):
        for field in stored:
            _flatten(value.getField(field.name), field.dataType, flags, values)
    elif isinstance(stored, T.ArrayType | T.MapType):
        values += _parts(value, stored)
    else:
        values.append(value)


def _parts(value: Expression, stored: T.DataType) -> list[Expression]:
    """A value inside of a list: whether it is NULL and, of lists, the size before the elements."""
    if isinstance(stored, T.MapType):
        return [F.size(value), F.transform(F.array_sort(F.map_keys(value)), lambda key: _entry(value, key, stored))]
    if isinstance(stored, T.ArrayType):
        return [F.size(value), F.transform(value, lambda each: _element(each, stored.elementType))]
    if isinstance(stored, T.StructType):
        return [_element(value.getField(field.name), field.dataType) for field in stored]
    return [value]


def _element(value: Expression, stored: T.DataType) -> Expression:
    return F.struct(value.isNull(), *_parts(value, stored))


def _entry(entries: Expression, key: Expression, stored: T.MapType) -> Expression:
    return F.struct(_element(key, stored.keyType), _element(F.element_at(entries, key), stored.valueType))


def _to_wire(value: Expression, stored: T.DataType) -> Expression:
    if isinstance(stored, T.TimestampType):
        return F.unix_micros(value)
    if isinstance(stored, T.DecimalType | T.TimestampNTZType):
        return value.cast("string")
    if isinstance(stored, T.DoubleType):
        return value + F.lit(0.0)  # -0.0 becomes 0.0
    if isinstance(stored, T.ArrayType):
        return F.transform(value, lambda each: _to_wire(each, stored.elementType))
    if isinstance(stored, T.MapType):
        keys = F.array_sort(F.map_keys(value))
        return F.transform(keys, lambda key: _wire_entry(value, key, stored))
    if isinstance(stored, T.StructType):
        fields = (_to_wire(value.getField(each.name), each.dataType).alias(each.name) for each in stored)
        return F.when(value.isNotNull(), F.struct(*fields))
    return value


def _wire_entry(entries: Expression, key: Expression, stored: T.MapType) -> Expression:
    return F.struct(
        _to_wire(key, stored.keyType).alias("key"),
        _to_wire(F.element_at(entries, key), stored.valueType).alias("value"),
    )


def _wire_type(stored: T.DataType) -> T.DataType:
    if isinstance(stored, T.TimestampType):
        return T.LongType()
    if isinstance(stored, T.DecimalType | T.TimestampNTZType):
        return T.StringType()
    if isinstance(stored, T.ArrayType):
        return T.ArrayType(_wire_type(stored.elementType))
    if isinstance(stored, T.MapType):
        key, value = _wire_type(stored.keyType), _wire_type(stored.valueType)
        return T.ArrayType(T.StructType([T.StructField("key", key), T.StructField("value", value)]))
    if isinstance(stored, T.StructType):
        return T.StructType([T.StructField(each.name, _wire_type(each.dataType)) for each in stored])
    return stored


def _from_wire(value: Expression, stored: T.DataType) -> Expression:
    if isinstance(stored, T.TimestampType):
        return F.timestamp_micros(value)
    if isinstance(stored, T.DecimalType | T.TimestampNTZType):
        return value.cast(stored)
    if isinstance(stored, T.ArrayType):
        return F.transform(value, lambda each: _from_wire(each, stored.elementType))
    if isinstance(stored, T.MapType):
        entries = F.transform(
            value,
            lambda each: F.struct(
                _from_wire(each["key"], stored.keyType).alias("key"),
                _from_wire(each["value"], stored.valueType).alias("value"),
            ),
        )
        return F.map_from_entries(entries)
    if isinstance(stored, T.StructType):
        fields = (_from_wire(value[each.name], each.dataType).alias(each.name) for each in stored)
        return F.when(value.isNotNull(), F.struct(*fields))
    return value
