"""What codes of anti-entropy mean and what helps, in the words that people are told; no store is needed for that."""

from collections.abc import Mapping


def rows(count: object) -> str:
    """`1 row`, `2 rows`."""
    return f"{count} row" if count == 1 else f"{count} rows"


LEFT_ALONE: Mapping[str, str] = {
    "REPORT": "the policy only reports",
    "NO_KEY": "the table has no key",
    "DUPLICATE_KEY": "a replica has the key more than once, and nobody can say which is right",
    "NO_SOURCE": "the source of truth was not compared",
    "EXTRA": "the source of truth lacks them, and nothing is deleted unless that is asked for (--delete-extra)",
    "NO_VERSION": "contents differ, and nothing says which is newer",
    "CONFLICT": "two contents have the same version",
    "RESURRECTION_RISK": "somewhere they are missing, and are so old that their deletion may be forgotten",
    "NOT_WRITABLE": "a replica that should get them cannot be written to",
    "ROW_TOO_LARGE": "a row is larger than a page (700 kB)",
}

REMEDIES: Mapping[str, str] = {
    "REPLICA_DOWN": "see that its validator runs (`topolog run validator`), or go on without it: --allow-partial",
    "WITHDRAWN": "start its validator again, or go on without it: --allow-partial",
    "SCHEMA_MISMATCH": "--columns compares the columns that all have in types that go together",
    "TREE_TIMEOUT": "see what its validator says; a slow one is never given up while it moves, --stall gives it longer",
    "COPY_TIMEOUT": "see what its validator says, and repair again: what was written stays",
    "TREE_CONFLICT": "two trees at one read point differ: look for a failing disk or memory at that replica",
    "PAGES_DAMAGED": "what was sent is not what was reported: verify again; if it stays, look for failing memory there",
    "PAGES_MISSING": "what was sent is no longer kept: repair again, and see how long topic `trees` keeps its records",
    "ROW_TOO_LARGE": "a row is larger than a page: compare without its large column (--columns), or copy it by hand",
    "RENDEZVOUS_DOWN": "see that `topolog run rendezvous` runs, and what it says",
    "FAILED": "the validator's own log says where: it is a fault of topolog or of the source",
    "NOT_WRITABLE": "the replica does not take rows: repair another one, or let it be written to",
    "SCHEMA": "--columns compares the columns that all have in types that go together",
    "RANGE": "ask for tokens that the replica holds, or with --node",
    "STRADDLES": "ask for one part of the tokens, or with --node",
    "IO": "its source or the broker did not answer: see what its validator says",
    "UNSTABLE": "a replica does not read the same twice at one read point: see whether somebody writes past it",
    "INTERRUPTED": "its validator began anew, or its columns changed, each time that it was asked: verify again",
    "CUT_LOST": "its read point was removed or its columns changed: verify again",
    "UNSUPPORTED": "--ignore leaves out the column whose type cannot be compared",
    "LEAF_TOO_LARGE": "--bits with 8 more makes smaller leaves",
    "CORRUPT": "the replica's own data cannot be read: mend or withdraw it",
    "HOT_KEY": "more rows have one key, or are the same, than can be compared",
    "FULL_COPY": "so much differs that the whole replica should be copied anew",
    "UNRESOLVED": "the rows that are left alone need another policy, or somebody who decides",
    "STILL_DIFFERENT": "rows were written meanwhile: verify again, then repair what is left",
    "NO_NEIGHBOURS": "declare another replica of these tokens",
    "NO_CUT": "compare while nobody writes, or from a source that can fix a read point",
    "DEADLINE": "--deadline gives it longer; --ranges asks for what is left",
}
