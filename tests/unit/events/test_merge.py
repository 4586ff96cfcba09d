"""The merge of two definitions, ME3 to ME10, and what is no definition at all."""

import itertools
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events.codec import CODEC
from topolog.events.errors import BadInput, MergeConflict
from topolog.events.ids import Version
from topolog.events.metadata import MetadataUpdateProposed, ObjectType, merge, schema_id
from topolog.events.object_types import size_bytes, with_schema

CUSTOMER = ObjectType("Customer", {"id": "long"}, "id")


def schemas(*orders: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    return {str(schema_id(names)): names for names in orders}


def conflict(current: ObjectType, proposed: ObjectType) -> MergeConflict:
    with pytest.raises(MergeConflict) as raised:
        merge(current, proposed)
    return raised.value


def test_m1_the_first_definition_is_taken_as_it_is() -> None:
    """ME3: old absent, the result is new, unchanged."""
    assert merge(None, CUSTOMER) is CUSTOMER


def test_m2_two_names_with_one_id_conflict() -> None:
    """ME4: the same type id under another name is a conflict, even if only the case differs."""
    refusal = conflict(CUSTOMER, ObjectType("CUSTOMER", {"id": "long"}, "id"))
    assert refusal.rule == "ME4"
    assert (refusal.facts["current"], refusal.facts["proposed"]) == ("Customer", "CUSTOMER")


@pytest.mark.parametrize(("now", "then"), [("id", "name"), (None, "id"), ("id", None)])
def test_m3_another_affinity_key_conflicts(now: str | None, then: str | None) -> None:
    """ME5: affinity keys must be equal; none against some counts as different."""
    fields = {"id": "long", "name": "String"}
    assert conflict(ObjectType("T", fields, now), ObjectType("T", fields, then)).rule == "ME5"


@pytest.mark.parametrize("is_enum", [True, False])
def test_m4_an_enum_is_never_a_class(is_enum: bool) -> None:
    """ME6: the enum flag differs, in either direction."""
    assert conflict(ObjectType("T", {}, is_enum=is_enum), ObjectType("T", {}, is_enum=not is_enum)).rule == "ME6"


@pytest.mark.parametrize("constants", [{"UNO": 0}, {"ONE": 1}])
def test_m5_ordinals_and_names_of_constants_stay_bound(constants: dict[str, int]) -> None:
    """ME7: one ordinal with two names, or one name with two ordinals, is a conflict."""
    one = ObjectType("E", {}, is_enum=True, enum={"ONE": 0})
    assert conflict(one, msgspec.structs.replace(one, enum=constants)).rule == "ME7"


def test_m5_more_constants_are_united() -> None:
    """ME7: a superset is accepted."""
    one = ObjectType("E", {}, is_enum=True, enum={"ONE": 0})
    both = merge(one, ObjectType("E", {}, is_enum=True, enum={"ONE": 0, "TWO": 1}))
    assert both.enum == {"ONE": 0, "TWO": 1}


def test_m6_a_field_of_another_type_conflicts_and_both_sides_are_told() -> None:
    """ME8: field types are compared by their names."""
    refusal = conflict(CUSTOMER, ObjectType("Customer", {"id": "String"}, "id"))
    assert (refusal.code, refusal.rule) == ("METADATA_CONFLICT", "ME8")
    assert refusal.facts == {"what": "field id", "current": "long", "proposed": "String"}


def test_m7_fields_are_added_and_never_taken_away() -> None:
    """ME3: a field only in new is added, a field only in old is kept."""
    merged = merge(CUSTOMER, ObjectType("Customer", {"name": "String"}, "id"))
    assert list(merged.fields.items()) == [("id", "long"), ("name", "String")]


def test_m7_a_field_is_not_widened() -> None:
    """ME3: int to long is a conflict."""
    assert conflict(ObjectType("T", {"n": "int"}), ObjectType("T", {"n": "long"})).rule == "ME8"


def test_m8_a_new_schema_alone_is_a_change() -> None:
    """ME3: known fields in another order are a new schema, schemas are united."""
    fields = {"a": "int", "b": "int"}
    current = ObjectType("T", fields, schemas=schemas(("a", "b")))
    merged = merge(current, ObjectType("T", fields, schemas=schemas(("b", "a"))))
    assert merged is not current
    assert merged.schemas == schemas(("a", "b"), ("b", "a"))


def test_m9_nothing_new_returns_the_very_same_object() -> None:
    """ME9: identity is the test for «nothing changes»."""
    current = ObjectType("T", {"a": "int", "b": "int"}, schemas=schemas(("a", "b")))
    assert merge(current, ObjectType("T", {"b": "int"})) is current


FIELDS = dict(zip("abcdef", ("int", "long", "String") * 2, strict=True))
CONSTANTS = {"ONE": 0, "TWO": 1, "SIX": 6}


@st.composite
def definitions(draw: st.DrawFn) -> ObjectType:
    """Definitions of one type: mostly compatible, now and then in contradiction."""
    if draw(st.booleans()):
        constants = draw(st.dictionaries(st.sampled_from([*CONSTANTS, "UNO"]), st.integers(0, 6), max_size=3))
        agreeing = {name: CONSTANTS.get(name, 7) for name in constants}
        enum = draw(st.sampled_from([constants, agreeing, agreeing]))
        ordinals = list(enum.values())
        return ObjectType("T", {}, is_enum=True, enum=enum if len(set(ordinals)) == len(ordinals) else {})
    names = draw(st.lists(st.sampled_from(list(FIELDS)), unique=True))
    fields = {name: FIELDS[name] for name in names}
    if names and draw(st.integers(0, 4)) == 0:
        fields[names[0]] = "UUID"
    orders = draw(st.lists(st.lists(st.sampled_from(names), unique=True).map(tuple), max_size=3)) if names else []
    return ObjectType("T", fields, draw(st.sampled_from([None, None, "a"])), schemas=schemas(*orders))


def united(*parts: ObjectType) -> dict[str, Any] | None:
    """What the parts merge to in this order, None if they contradict each other; the order of names left aside."""
    merged: ObjectType | None = None
    try:
        for part in parts:
            merged = merge(merged, part)
    except MergeConflict:
        return None
    return merged.to_dict() if merged else None


@given(st.lists(definitions(), min_size=2, max_size=4))
def test_m10_the_order_of_merging_does_not_matter(parts: list[ObjectType]) -> None:
    """ME10: in whatever order definitions are merged, they conflict or give the same content."""
    results = [united(*order) for order in itertools.permutations(parts)]
    assert all(result == results[0] for result in results)


@given(definitions(), definitions())
def test_what_has_been_merged_changes_nothing_when_merged_again(first: ObjectType, second: ObjectType) -> None:
    """ME3, ME9: content only grows, and a repeat of either side is found to change nothing."""
    try:
        merged = merge(first, second)
    except MergeConflict:
        return
    assert merge(merged, first) is merged
    assert merge(merged, second) is merged
    assert first.fields.items() <= merged.fields.items()
    assert second.schemas.items() <= merged.schemas.items()


@pytest.mark.parametrize(
    ("definition", "complaint"),
    [
        ({"fields": {}}, "missing required field `name`"),
        ({"name": " "}, "needs a name"),
        ({"name": "\0"}, "a character that nobody sees"),
        ({"name": "T\x9b2J"}, "a character that nobody sees"),
        ({"name": "a n2"}, "no name of a type: it has a blank"),
        ({"name": "T", "fields": {"\u202ea": "int"}}, "a character that nobody sees"),
        ({"name": "T", "fields": {"a\x1b[31m": "int"}}, "a character that nobody sees"),
        ({"name": "T", "fields": {"": "int"}}, "empty name or type"),
        ({"name": "T", "fields": {"a": " "}}, "empty name or type"),
        ({"name": "T", "fields": {"a": 1}}, "Expected `str`"),
        ({"name": "T", "feilds": {"a": "int"}}, "unknown field `feilds`"),
        ({"name": "T", "fields": {"a": "int"}, "is_enum": True}, "constants and no fields"),
        ({"name": "T", "is_enum": True, "enum": {"ONE": -1}}, "ordinal >= 0"),
        ({"name": "T", "is_enum": True, "enum": {"ONE": 1, "UNO": 1}}, "ordinal 1 has two names"),
        ({"name": "T", "schemas": {"1": ["a"]}}, "Schema id 1 is not the id"),
        ({"name": "T", "schemas": schemas(("a",))}, "field 'a', which is not defined"),
        ({"name": "T", "type_id": 5}, "is not the id of 'T', which is 116"),
        ({"name": "n" * 1001}, "name of 1001 bytes"),
        ({"name": "T", "fields": {"f" * 1001: "int"}}, "name of 1001 bytes"),
    ],
)
def test_what_is_no_definition_is_refused_with_what_is_wrong(definition: dict[str, Any], complaint: str) -> None:
    """A definition must agree with itself before anything is compared with it."""
    with pytest.raises((BadInput, MergeConflict), match=complaint):
        ObjectType.from_dict(definition)


def test_fields_in_their_order_are_the_schema_unless_one_is_stated() -> None:
    """A service states fields; the schema it writes by is theirs."""
    plain = ObjectType("T", {"b": "int", "a": "int"})
    stated = ObjectType("T", {"b": "int", "a": "int"}, schemas=schemas(("a", "b")))
    constants = ObjectType("E", {}, is_enum=True, enum={"ONE": 0})
    assert with_schema(plain).schemas == schemas(("b", "a"))
    assert with_schema(stated) is stated
    assert with_schema(constants) is constants


@given(definitions())
def test_the_stated_size_is_an_upper_bound_of_the_bytes(definition: ObjectType) -> None:
    """Records must stay below the log's limit, so their size is known before they are made."""
    accepted = CODEC.encode(MetadataUpdateProposed(None, "", Version(1), definition))
    around = CODEC.encode(MetadataUpdateProposed(None, "", Version(1), ObjectType("", {})))
    assert len(accepted) - len(around) <= size_bytes(definition)
