"""The bodies of POST /requests, and how they become requests. What is malformed is refused here and never sent."""

from typing import Any, Literal

import msgspec

from topolog.events.asked import SUBJECT_CHARS_MAX, Request, RequestId
from topolog.events.errors import BadInput
from topolog.events.exchange_requests import ExchangeRequested, LossResetRequested
from topolog.events.group_definition import FIELDS, PARTITIONS_DEFAULT, GroupDefinition, LossPolicy
from topolog.events.groups import GroupAlterationRequested, GroupCreationRequested, GroupDropRequested
from topolog.events.lease_terms import LeaseTermsRequested
from topolog.events.levels import LevelRaiseRequested
from topolog.events.membership import NodeRemovalRequested
from topolog.events.metadata import TypeRemovalRequested, UpdateRequested
from topolog.events.object_types import ObjectType, with_schema
from topolog.events.requesters import is_of_process
from topolog.events.requests import REQUEST_BYTES_MAX, is_valid, shortened
from topolog.projections.api import baseline_forms, objects_forms, repair_forms
from topolog.projections.api.baseline_forms import Ms
from topolog.projections.api.problems import InvalidParameter, parameter
from topolog.projections.requester import Requester

_NAME_LENGTH_MAX = 1_000
_VERSION_MAX = 2**63 - 1
_KEY_CHARS_MAX = SUBJECT_CHARS_MAX + len(f"/{_VERSION_MAX}")
_KINDS = (
    '"propose", "remove", "create-group", "alter-group", "drop-group", "reset-group", "exchange", "raise-level", '
    '"cluster-state", "baseline", "auto-adjust", "hold", "warm", "drain", "lease-terms", "schema-change", '
    '"cancel-change", "start-session", "alter-session", "abort-sessions", "set-schedule", "drop-schedule" or '
    '"withdraw-replica"'
)
_HINT = f"See the examples of POST /requests in /openapi.json; `kind` is {_KINDS}."


class Propose(msgspec.Struct, frozen=True, tag_field="kind", tag="propose", forbid_unknown_fields=True):
    """Add `definition` to the type of its name. `based_on`: the version it was made from, null if made anew."""

    definition: dict[str, Any]
    based_on: int | None = None
    reason: str = ""


class Remove(msgspec.Struct, frozen=True, tag_field="kind", tag="remove", forbid_unknown_fields=True):
    """Remove a type, or a node from the membership."""

    resource: Literal["type", "node"]
    name: str
    reason: str = ""


class RaiseLevel(msgspec.Struct, frozen=True, tag_field="kind", tag="raise-level", forbid_unknown_fields=True):
    """Let newer schemas be written, once every member can read them."""

    level: int
    reason: str = ""


Policy = Literal["IGNORE", "READ_WRITE_SAFE", "READ_ONLY_SAFE"]


class CreateGroup(msgspec.Struct, frozen=True, tag_field="kind", tag="create-group", forbid_unknown_fields=True):
    """Create a group; one that is there and the same is left as it is."""

    name: str
    partitions: int = PARTITIONS_DEFAULT
    backups: int = 0
    exclude_neighbours_by: str = ""
    node_filter: dict[str, str] = {}
    backup_filter: str = ""
    loss_policy: Policy = "READ_WRITE_SAFE"
    persistent: bool = False
    reason: str = ""


class AlterGroup(msgspec.Struct, frozen=True, tag_field="kind", tag="alter-group", forbid_unknown_fields=True):
    """Alter a group: what is null stays as it is. `partitions` and `persistent` never change, and are refused."""

    name: str
    partitions: int | None = None
    backups: int | None = None
    exclude_neighbours_by: str | None = None
    node_filter: dict[str, str] | None = None
    backup_filter: str | None = None
    loss_policy: Policy | None = None
    persistent: bool | None = None
    reason: str = ""


class DropGroup(msgspec.Struct, frozen=True, tag_field="kind", tag="drop-group", forbid_unknown_fields=True):
    """Drop a group, and all copies of its partitions with it."""

    name: str
    reason: str = ""


class ResetGroup(msgspec.Struct, frozen=True, tag_field="kind", tag="reset-group", forbid_unknown_fields=True):
    """Give up what is lost of a group: its lost partitions go on with what is left of them, empty if need be."""

    name: str
    reason: str = ""


class ChangeTerms(msgspec.Struct, frozen=True, tag_field="kind", tag="lease-terms", forbid_unknown_fields=True):
    """Change how long a node may serve on one heartbeat (`fence_ms`), and what whoever waits for it adds (`margin_ms`).
    What is null stays as it is. Until the change is confirmed the longer of both waits counts."""

    fence_ms: Ms | None = None
    margin_ms: Ms | None = None
    reason: str = ""


class StartExchange(msgspec.Struct, frozen=True, tag_field="kind", tag="exchange", forbid_unknown_fields=True):
    """Ask all servers for their maps although nothing has changed."""

    reason: str = ""


Form = (
    Propose
    | Remove
    | RaiseLevel
    | CreateGroup
    | AlterGroup
    | DropGroup
    | ResetGroup
    | StartExchange
    | ChangeTerms
    | baseline_forms.BaselineForm
    | objects_forms.ObjectsForm
    | repair_forms.RepairForm
)
FORMS: tuple[type[msgspec.Struct], ...] = Form.__args__


def read_form(body: bytes) -> Form:
    """The form in this body; raises BadInput with the member that is wrong."""
    try:
        form: Form = msgspec.json.decode(body, type=Form)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        parameter_ = path.strip("`.") or "body"
        hint = objects_forms.LENGTH_HINT if parameter_ == "statements" else _HINT
        raise InvalidParameter(parameter_, reason, hint=hint) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter("body", f"this is no JSON: {error}", hint=_HINT) from error
    except RecursionError as error:
        raise InvalidParameter("body", "it is nested deeper than any form", hint=_HINT) from error
    _check_texts(form)
    return form


def to_request(form: Form, name: RequestId, log_id: bytes, actor: str) -> Request:
    """The request a form asks for: the same form under the same id gives the same bytes. Raises BadInput."""
    match form:
        case Propose():
            with parameter("definition", _HINT):
                definition = with_schema(ObjectType.from_dict(form.definition))
            return UpdateRequested(name, log_id, actor, form.reason, definition, form.based_on or 0)
        case Remove(resource="type"):
            return TypeRemovalRequested(name, log_id, actor, form.reason, form.name)
        case Remove():
            return NodeRemovalRequested(name, log_id, actor, form.reason, form.name)
        case RaiseLevel() | StartExchange() | ChangeTerms():
            return _about_cluster(form, name, log_id, actor)
        case CreateGroup() | AlterGroup() | DropGroup() | ResetGroup():
            return _about_group(form, name, log_id, actor)
        case objects_forms.ChangeSchema() | objects_forms.CancelChange():
            return objects_forms.to_request(form, name, log_id, actor)
        case _ if isinstance(form, repair_forms.RepairForm):
            return repair_forms.to_request(form, name, log_id, actor)
        case _:
            return baseline_forms.to_request(form, name, log_id, actor)


def _about_cluster(
    form: RaiseLevel | StartExchange | ChangeTerms, name: RequestId, log_id: bytes, actor: str
) -> Request:
    match form:
        case RaiseLevel():
            return LevelRaiseRequested(name, log_id, actor, form.reason, form.level)
        case StartExchange():
            return ExchangeRequested(name, log_id, actor, form.reason)
        case ChangeTerms():
            return LeaseTermsRequested(name, log_id, actor, form.reason, form.fence_ms, form.margin_ms)


def _about_group(
    form: CreateGroup | AlterGroup | DropGroup | ResetGroup, name: RequestId, log_id: bytes, actor: str
) -> Request:
    match form:
        case CreateGroup():
            return GroupCreationRequested(name, log_id, actor, form.reason, _definition(form))
        case AlterGroup():
            return _alteration(form, name, log_id, actor)
        case DropGroup():
            return GroupDropRequested(name, log_id, actor, form.reason, form.name)
        case ResetGroup():
            return LossResetRequested(name, log_id, actor, form.reason, form.name)


def _definition(form: CreateGroup | AlterGroup) -> GroupDefinition:
    """The group that the form asks for, what it leaves out as it usually is; raises BadInput if none can be so."""
    asked = {field: getattr(form, field) for field in FIELDS}
    with parameter("group", _HINT):
        return GroupDefinition.from_dict({field: value for field, value in asked.items() if value is not None})


def _alteration(form: AlterGroup, name: RequestId, log_id: bytes, actor: str) -> GroupAlterationRequested:
    _definition(form)
    policy = None if form.loss_policy is None else LossPolicy(form.loss_policy)
    return GroupAlterationRequested(
        name,
        log_id,
        actor,
        form.reason,
        form.name,
        form.partitions,
        form.backups,
        form.exclude_neighbours_by,
        form.node_filter,
        form.backup_filter,
        policy,
        form.persistent,
    )


def request_id(text: str, requester: Requester) -> RequestId:
    """The id a caller has chosen; raises BadInput unless it is one, and not one `requester` may still give out."""
    with parameter("Idempotency-Key"):
        name = RequestId.parse(text) if len(text) <= _KEY_CHARS_MAX else None
        if name is None or not is_valid(name) or name.sequence > _VERSION_MAX:
            raise BadInput(
                f"{text[:_KEY_CHARS_MAX]!r} cannot be a request's id.",
                hint=f"A requester has 1 to {SUBJECT_CHARS_MAX} printable characters, sequences count from 1.",
            )
        if is_of_process(name.requester):
            raise BadInput(
                f"{shortened(name.requester)!r} has the form of a process's requester; "
                "it cannot be an Idempotency-Key.",
                hint="Choose a requester that does not end with '-' and 16 hexadecimal digits.",
            )
        if requester.may_issue(name):
            raise BadInput(f"{requester.name} is this API's own name.", hint="Choose a requester's name of your own.")
        return name


def too_big() -> InvalidParameter:
    return InvalidParameter(
        "body",
        f"it has more than {REQUEST_BYTES_MAX} bytes",
        hint="Ask for less at a time: a schema change in several, fields of a type in several proposals.",
    )


def _check_texts(form: Form) -> None:
    if isinstance(form, baseline_forms.BaselineForm):
        baseline_forms.check(form)
    if isinstance(form, Remove | DropGroup | ResetGroup) and not (
        form.name.strip() and len(form.name) <= _NAME_LENGTH_MAX
    ):
        raise InvalidParameter(
            "name", f"it must have 1 to {_NAME_LENGTH_MAX} characters", hint="Name what to remove, drop or reset."
        )
    if isinstance(form, Propose) and not 0 <= (form.based_on or 0) <= _VERSION_MAX:
        raise InvalidParameter(
            "based_on", f"a version is 0 to {_VERSION_MAX}", hint="Use null for a definition made anew."
        )
    if isinstance(form, RaiseLevel) and not 1 <= form.level <= _VERSION_MAX:
        raise InvalidParameter(
            "level", f"a feature level is 1 to {_VERSION_MAX}", hint="`topolog get cluster -o json` has both."
        )
