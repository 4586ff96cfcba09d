"""Grants: what each covers, what is missing where none does."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topolog.events.errors import BadInput
from topolog.projections.api.access.grants import Asked, Grant, Right, Role, covering, fits, least, parse, parse_all

ORDERS = Asked(Right.CHANGE, "main", "groups", "orders")


@pytest.mark.parametrize(
    ("grant", "is_covered"),
    [
        ("operator", True),
        ("admin", True),
        ("operator@main", True),
        ("operator@main:groups", True),
        ("operator@main:groups/orders", True),
        ("operator@main:groups/ord*", True),
        ("operator@ma*:*/orders", True),
        ("viewer", False),
        ("auditor", False),
        ("operator@other", False),
        ("operator@mai", False),
        ("operator@main:types", False),
        ("operator@main:groups/order", False),
        ("operator@main:groups/orders2", False),
    ],
)
def test_a_grant_covers_what_it_says_and_no_more(grant: str, is_covered: bool) -> None:
    assert (covering([parse(grant)], ORDERS) is not None) == is_covered


def test_a_list_takes_a_grant_that_is_not_narrowed_to_names() -> None:
    """Rows of others would be among its rows."""
    every = Asked(Right.READ, "main", "groups")
    assert covering([parse("viewer@main:groups/*")], every)
    assert covering([parse("viewer@main:groups/orders*")], every) is None


def test_no_role_has_a_right_by_chance() -> None:
    """Part 6: payloads and the audit are rights of their own."""
    rights = {role: {right.value for right in Grant(role).rights} for role in Role}
    assert rights == {
        Role.VIEWER: {"read"},
        Role.AUDITOR: {"read", "audit"},
        Role.OPERATOR: {"read", "read-payload", "change"},
        Role.ADMIN: {"read", "read-payload", "change", "administer", "audit"},
    }


@pytest.mark.parametrize(
    "text", ["", "root", "viewer@", "viewer@a:b:c", "viewer main", "operator@main:groups/", "@main"]
)
def test_what_is_no_grant_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse(text)


@given(st.sampled_from(Role), *(st.from_regex(r"[a-z*]{1,6}", fullmatch=True) for _ in range(3)))
def test_a_grant_reads_as_it_is_written(role: Role, cluster: str, resource: str, name: str) -> None:
    grant = Grant(role, cluster, resource, name)
    assert parse(str(grant)) == grant


@given(
    st.sampled_from(Right),
    *(st.from_regex(r"[a-z][a-z0-9./-]{0,8}", fullmatch=True) for _ in range(2)),
    st.none() | st.from_regex(r"[a-z0-9/.-]{1,8}", fullmatch=True),
)
def test_the_least_grant_is_enough(right: Right, cluster: str, resource: str, name: str | None) -> None:
    """What a caller is told to ask for would help them."""
    asked = Asked(right, cluster, resource, name)
    assert covering([least(asked)], asked) is not None


def test_only_a_star_means_anything() -> None:
    """A pattern is no regular expression and no shell's: a dot is a dot."""
    assert fits("a.c", "a.c")
    assert not fits("a.c", "abc")
    assert not fits("[ab]", "a")
    assert not fits("a?", "ab")
    assert fits("a*c*", "abcd")


@given(pattern=st.text("ab*", max_size=8), text=st.text("ab", max_size=8))
def test_a_star_is_for_any_characters_at_all(pattern: str, text: str) -> None:
    assert fits(pattern, text) == (re.fullmatch(pattern.replace("*", ".*"), text) is not None)


def test_a_pattern_of_many_stars_is_judged_at_once() -> None:
    """Whoever may read the audit writes patterns, and all others wait as long as one of them takes."""
    began_s = time.process_time()
    assert not fits("*a" * 400 + "*b", "a" * 1_000)
    assert time.process_time() - began_s < 0.5


def test_several_grants_stand_between_commas_or_spaces() -> None:
    assert [str(each) for each in parse_all("viewer@main, operator@main:groups/a*  admin")] == [
        "viewer@main",
        "operator@main:groups/a*",
        "admin",
    ]
