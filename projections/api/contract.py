"""What OpenAPI says of each answer: its schema, made from the resources, and an example."""

from collections.abc import Mapping
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from topolog.projections.api import repair_examples
from topolog.projections.api.examples import EXAMPLES
from topolog.projections.api.forms import FORMS
from topolog.projections.api.openapi import completed, wrapped
from topolog.projections.resources import AsOf

_REF = "#/components/schemas/{name}"

PROBLEM_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "description": "RFC 9457. `code` is stable, `detail` and `hint` are for people.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "id": {"type": "string", "description": "The request this is about."},
        "rule": {"type": "string", "description": "The rule that refuses."},
        "facts": {"type": "object", "additionalProperties": {"type": "string"}},
        "invalid_params": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "reason": {"type": "string"}},
            },
        },
    },
}
_PROBLEM = {"content": {"application/problem+json": {"schema": {"$ref": _REF.format(name="Problem")}}}}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    304: {"description": "What is asked for is what `If-None-Match` names; nothing is sent."},
    400: {"description": "The question cannot be understood: `invalid_params` says what.", **_PROBLEM},
    401: {"description": "The API does not know who asks; `hint` says how it can.", **_PROBLEM},
    403: {"description": "Whoever asks may not; `missing` has the least grants that it takes.", **_PROBLEM},
    404: {"description": "There is no such thing; `hint` has the nearest names.", **_PROBLEM},
    409: {"description": "`token_foreign`: the token is of another log.", **_PROBLEM},
    410: {"description": "Before the beginning of what is kept.", **_PROBLEM},
    503: {
        "description": "`not_caught_up`, `stale`, or the broker or the disk is away. Ask again.",
        "headers": {"Retry-After": {"description": "When, in seconds.", "schema": {"type": "integer"}}},
        **_PROBLEM,
    },
}

BODIES: Mapping[str, Mapping[str, Any]] = {
    "propose": {
        "value": {
            "kind": "propose",
            "definition": {"name": "Customer", "fields": {"id": "long", "email": "String"}},
            "based_on": None,
            "reason": "the shop stores addresses",
        }
    },
    "remove a type": {"value": {"kind": "remove", "resource": "type", "name": "Customer", "reason": "unused"}},
    "remove a node": {"value": {"kind": "remove", "resource": "node", "name": "n3", "reason": "its disk is broken"}},
    "create a group": {
        "value": {
            "kind": "create-group",
            "name": "orders",
            "partitions": 64,
            "backups": 1,
            "backup_filter": "rack",
            "persistent": True,
            "reason": "the shop's orders",
        }
    },
    "alter a group": {"value": {"kind": "alter-group", "name": "orders", "backups": 2, "reason": "a third rack"}},
    "drop a group": {"value": {"kind": "drop-group", "name": "orders", "reason": "the shop is closed"}},
    "give up what is lost of a group": {
        "value": {"kind": "reset-group", "name": "orders", "reason": "its disks are gone for good"}
    },
    "start an exchange": {"value": {"kind": "exchange", "reason": "n3 was cut off"}},
    "activate the cluster": {"value": {"kind": "cluster-state", "state": "ACTIVE", "reason": "all disks are back"}},
    "let exactly these nodes count": {
        "value": {
            "kind": "baseline",
            "verb": "SET",
            "nodes": ["n1", "n2", "n3"],
            "reason": "n4 is gone",
        }
    },
    "let the servers of a former view count": {
        "value": {"kind": "baseline", "verb": "SET", "version": "5.0", "accept_loss": False}
    },
    "let a node count no more": {
        "value": {"kind": "baseline", "verb": "REMOVE", "nodes": ["n4"], "reason": "its disk is broken"}
    },
    "let the baseline follow the servers": {
        "value": {"kind": "auto-adjust", "enabled": True, "soft_ms": 300_000, "hard_ms": 1_800_000}
    },
    "hold the cluster as it is": {"value": {"kind": "hold", "on": True, "reason": "maintenance"}},
    "go on though the cluster is cold": {"value": {"kind": "warm", "reason": "their disks are gone"}},
    "drain a node": {"value": {"kind": "drain", "node": "n4", "reason": "its machine is replaced"}},
    "change the terms of leases": {
        "value": {"kind": "lease-terms", "fence_ms": 10_000, "margin_ms": 3_000, "reason": "new Kafka"}
    },
    "change definitions": {
        "value": {
            "kind": "schema-change",
            "statements": [
                {"verb": "CREATE", "kind": "DATABASE", "name": "shop", "definition": {"ttl_ms": 0}},
                {
                    "verb": "CREATE",
                    "kind": "TABLE",
                    "name": "shop.orders",
                    "definition": {"columns": [{"name": "id", "type": "INT64"}], "key": "id"},
                    "planned_on": -1,
                },
                {
                    "verb": "ALTER",
                    "kind": "TABLE",
                    "name": "shop.parts",
                    "columns": [{"verb": "ADD", "name": "note", "type": "STRING"}],
                },
                {"verb": "DROP", "kind": "GRANT", "name": "ada@shop.parts", "if_needed": True},
            ],
            "deadline_ms": 60_000,
            "reason": "the shop takes orders",
        }
    },
    "give up a change": {"value": {"kind": "cancel-change", "change": 47, "reason": "not today"}},
    "raise the feature level": {"value": {"kind": "raise-level", "level": 2, "reason": "every node is upgraded"}},
    **repair_examples.BODIES,
}
"""A request of each kind."""

REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"oneOf": [{"$ref": _REF.format(name=form.__name__)} for form in FORMS]},
                "examples": {name: {"value": wrapped(each["value"])} for name, each in BODIES.items()},
            }
        },
    }
}

PAST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"type": "object", "description": "The content of a node's `topolog-past.json`."},
                "example": {
                    "format": 1,
                    "log_id": "5f0c2f1e7d9b4c3a8e6d1b2a3c4d5e6f",
                    "node": "n3",
                    "echo": {
                        "incarnation": 7,
                        "sequence": 118,
                        "at": {"position": 41, "chain": "1f0e4a55a5c1f6f1d2c3b4a59b1f0f5f"},
                    },
                    "reserved": 182,
                    "points": [{"position": 38, "chain": "2f0e4a55a5c1f6f1d2c3b4a59b1f0f5f"}],
                    "checksum": "0c2f1e7d9b4c3a8e",
                },
            }
        },
    }
}

REPLAY_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"type": "object", "properties": {"reason": {"type": "string"}}},
                "example": {"reason": "the coordinators are upgraded"},
            }
        },
    }
}


def one(item: type[msgspec.Struct], kind: str | None = None) -> dict[int | str, dict[str, Any]]:
    """`responses` of an address that answers with one item."""
    kind = kind or item.__name__
    example = {**_envelope(kind), "item": msgspec.to_builtins(EXAMPLES[item])}
    return {200: _described(kind, {"item": _ref(item)}, example), **PROBLEMS}


def many(item: type[msgspec.Struct], kind: str | None = None) -> dict[int | str, dict[str, Any]]:
    """`responses` of an address that answers with a page of items."""
    kind = kind or f"{item.__name__}List"
    example = {**_envelope(kind), "items": [msgspec.to_builtins(EXAMPLES[item])], "next": None}
    properties = {"items": {"type": "array", "items": _ref(item)}, "next": {"type": ["string", "null"]}}
    return {200: _described(kind, properties, example), **PROBLEMS}


def exported(item: type[msgspec.Struct]) -> dict[int | str, dict[str, Any]]:
    """`responses` of an address that answers with rows and nothing around them."""
    row = msgspec.to_builtins(EXAMPLES[item])
    line = f"{msgspec.json.encode(row).decode()}\n"
    content = {
        "application/jsonl": {"schema": {"type": "string"}, "example": line},
        "text/csv": {"schema": {"type": "string"}, "example": f"{','.join(row)}\r\n"},
    }
    return {200: {"description": f"{item.__name__}Rows", "content": content}, **PROBLEMS}


def install(app: FastAPI) -> None:
    """/openapi.json with the schemas of all resources."""

    def openapi() -> dict[str, Any]:
        if not app.openapi_schema:
            made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            _, schemas = msgspec.json.schema_components([*EXAMPLES, *FORMS], ref_template=_REF)
            made.setdefault("components", {}).setdefault("schemas", {}).update({**schemas, "Problem": PROBLEM_SCHEMA})
            app.openapi_schema = completed(msgspec.json.decode(msgspec.json.encode(made)))
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the document


def _envelope(kind: str) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": "topolog/v1", "asOf": msgspec.to_builtins(EXAMPLES[AsOf])}


def _ref(item: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=item.__name__)}


def _described(kind: str, properties: Mapping[str, Any], example: Mapping[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "kind": {"const": kind},
            "apiVersion": {"const": "topolog/v1"},
            "asOf": _ref(AsOf),
            **properties,
        },
    }
    return {"description": kind, "content": {"application/json": {"schema": schema, "example": wrapped(example)}}}
