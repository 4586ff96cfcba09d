"""Rows that are to be written, as a small frame beside the stored ones: what a source makes of changes."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its customary name)
from pyspark.sql import types as T  # noqa: N812 (its customary name)

from topolog.events.tree_spec import TreeSpec
from topolog.projections.spark import canonical
from topolog.projections.spark.digests import key_object
from topolog.projections.spark.replica import Change

_KEY, _VALUES, _DELETED = "topolog_key", "topolog_values", "topolog_is_deleted"
_SENT, _STORED = "topolog_is_sent", "topolog_is_stored"
_ARRIVED, _UNFIT = "topolog_arrived", "topolog_unfit"


class CarriedRows:
    """A key in canonical types, values in stored ones, and whether the row is to be deleted.

    A row with a value that the stored type cannot hold is none of them: `left` says how many such there are, and
    `unfit` in which columns.
    """

    def __init__(self, session: SparkSession, spec: TreeSpec, changes: Sequence[Change], stored: T.StructType) -> None:
        self._spec = spec
        self._key = [each for each in spec.columns if each.name in spec.key]
        listed = [(key_object(spec.key, each.key), each.values or "{}", not each.values) for each in changes]
        texts = session.createDataFrame(listed, f"k string, v string, {_DELETED} boolean")
        fields = canonical.fields_of(spec.columns)
        keys = canonical.from_wire(F.col("k"), canonical.fields_of(self._key))
        values = canonical.from_wire(F.col("v"), fields)
        carried = texts.select(F.struct(*keys).alias(_KEY), F.struct(*values).alias(_VALUES), _DELETED)
        unfit = F.concat(*(_unfit(each, stored[each.name]) for each in fields))
        found = carried.withColumn(_UNFIT, unfit).select(_UNFIT).filter(F.size(_UNFIT) > 0).collect()
        self.left = len(found)
        self.unfit = sorted({name for row in found for name in row[0]})
        kept = [
            F.col(_VALUES).getField(each.name).try_cast(stored[each.name].dataType).alias(each.name) for each in fields
        ]
        fit = carried.filter(F.size(unfit) == 0) if found else carried
        self._frame = fit.select(_KEY, F.struct(*kept).alias(_VALUES), _DELETED, F.lit(True).alias(_SENT))

    def beside(self, stored: DataFrame) -> DataFrame:
        """The stored rows that have one of the keys, with what is sent for each."""
        return self._joined(stored, "inner")

    def new(self, stored: DataFrame, partitions: Sequence[str]) -> DataFrame:
        """Rows that are nowhere, and those that go to another partition, unless they are there already."""
        there = self._joined(stored, "right").filter(~F.col(_DELETED))
        moved = [~canonical.column(name).eqNullSafe(F.col(_VALUES).getField(name)) for name in self._own(partitions)]
        is_away = reduce(lambda left, right: left | right, moved, F.col(_STORED).isNull())
        arrived = there.filter(~is_away).select(F.col(_KEY).alias(_ARRIVED))
        wanted = there.filter(is_away).join(arrived, F.col(_KEY).eqNullSafe(F.col(_ARRIVED)), "left_anti")
        return wanted.select(*self._values(stored.schema, F.lit(True)))

    def applied(self, stored: DataFrame, partitions: Sequence[str]) -> DataFrame:
        """The stored rows after the changes, without those that go to another partition."""
        rows = self._joined(stored, "left")
        is_sent = F.coalesce(F.col(_SENT), F.lit(False))
        gone = F.col(_DELETED)
        for name in self._own(partitions):
            gone = gone | ~canonical.column(name).eqNullSafe(F.col(_VALUES).getField(name))
        return rows.filter(~(is_sent & gone)).select(*self._values(stored.schema, is_sent))

    def _joined(self, stored: DataFrame, how: str) -> DataFrame:
        rows = stored.withColumn(_STORED, F.lit(True))
        types = {each.name: each.dataType for each in canonical.fields_of(self._key)}
        same = [
            canonical.column(name).cast(stored_as).eqNullSafe(F.col(_KEY).getField(name))
            for name, stored_as in types.items()
        ]
        return rows.join(F.broadcast(self._frame) if how != "right" else self._frame, same, how)

    def _own(self, partitions: Sequence[str]) -> list[str]:
        return [name for name in partitions if name in self._spec.column_names]

    def _values(self, schema: T.StructType, is_sent: Expression) -> list[Expression]:
        """Columns of the spec as sent, all others as stored."""
        chosen = []
        for name in schema.names:
            value = canonical.column(name)
            if name in self._spec.column_names:
                value = F.when(is_sent, F.col(_VALUES).getField(name)).otherwise(value)
            chosen.append(value.alias(name))
        return chosen


def _unfit(declared: T.StructField, stored: T.StructField) -> Expression:
    """The name of the column in a list if it would not come back as it is sent, else an empty one."""
    value = F.col(_VALUES).getField(declared.name)
    back = value.try_cast(stored.dataType).try_cast(declared.dataType)
    if "map<" in declared.dataType.simpleString():  # maps cannot be compared
        value, back = canonical.text(value, declared.dataType), canonical.text(back, declared.dataType)
    none = F.array().cast("array<string>")
    return F.when(value.eqNullSafe(back), none).otherwise(F.array(F.lit(declared.name)))
