"""What helps somebody who was refused: by the code of the refusal, of a contradiction in a proposal by its rule.

The log keeps code, rule, message and evidence of a refusal; what helps is no part of it, for that changes with what
topolog can do.
"""

from collections.abc import Mapping

from topolog.projections.explain_words import REMEDIES as OF_SESSIONS

OF_MERGES: Mapping[str, str] = {
    "ME4": "Two names with one id cannot be told apart: give the type another name.",
    "ME5": "An affinity key never changes: propose the current one, or make a new type.",
    "ME6": "A type stays an enum or stays none: make a new type.",
    "ME7": "A constant keeps its ordinal, an ordinal its constant: give new constants free ordinals.",
    "ME8": "A field keeps its type: propose the current type, or a new field under another name.",
}
"""What somebody can do who broke this rule of the merge."""

_NODES = "`topolog get nodes` lists them."
_SMALLER = "Ask for less at once: a record holds 900 kB."
_PAST = "`topolog explain join NODE --past FILE` shows both histories; nothing is wiped by itself (docs/baseline.md)."
_OWN_FOLDER = "Each node needs a name, a process and a data folder of its own."
REMEDIES: Mapping[str, str] = {
    "AUTO_ADJUSTED": "`topolog baseline auto-adjust --off` first, or let it do so by itself.",
    "BAD_DEFINITION": "Change what the message names, and ask again.",
    "BAD_GROUP": "Change what the message names, and ask again.",
    "BAD_NAME": "A name has letters, digits, `_` and `-`; reserved words are none.",
    "BAD_NODE": "Start the node under another name or kind, as the message says.",
    "BAD_PAST": "The node's folder names a place this log has not reached or never had; see docs/baseline.md.",
    "BAD_POLICY": "Choose a policy that suits what the table has: a key, versions, a source of truth.",
    "BAD_REPLICA": "Change what the message names in the replica's declaration.",
    "BAD_REPLICAS": "`topolog get replicas` lists what can be compared; name two of one table at least.",
    "BAD_REPORT": "It is a fault of that validator or of its network: see what its own log says.",
    "BAD_REQUEST": "Upgrade the coordinators first: they do not know what is asked.",
    "BAD_SCHEDULE": "Change what the message names, and ask again.",
    "BAD_STATEMENT": "Change what the message names, and ask again; --dry-run shows what would be decided.",
    "BAD_TERMS": "The fence must leave room for heartbeats and the margin: docs/lease-terms.md has the relations.",
    "BAD_TIMEOUT": "Name both timeouts where one does not fit the other.",
    "BASELINE_EMPTY": "`topolog get views` shows who was there when; `topolog baseline set` names who is to count.",
    "BEING_DELETED": "Wait until the change that drops it is over: `topolog get changes` shows it.",
    "BLOCKED": "Upgrade the node that cannot apply it, or remove it, and ask again.",
    "CANCELLED": "Somebody has given the change up; ask again if it is still wanted.",
    "CHANGE_COMMITTED": "It is too late to cancel it: ask for the opposite change.",
    "CHANGE_UNKNOWN": "`topolog get changes` lists them.",
    "COLUMN_EXISTS": "Choose another name for the column, or alter the one that is there.",
    "COLUMN_IS_KEY": "A key column stays as it is: make a new table.",
    "COLUMN_NAMED_TWICE": "Name each column once.",
    "COLUMN_UNKNOWN": "`topolog get tables` and `topolog describe table NAME` show which columns there are.",
    "DEADLINE": "Ask again, with a longer deadline or none.",
    "DRAIN_FINISHED": "`topolog baseline add NODE` takes it in again.",
    "DUPLICATE_ID": f"Another process of this node lives. {_OWN_FOLDER}",
    "FOREIGN": f"The node's folder is of another cluster. {_PAST}",
    "FOREIGN_LOG": "It was meant for another cluster, or for a log that this one replaced: see `topolog get cluster`.",
    "FORKED": f"The node has written in a history beside this one. {_PAST}",
    "AHEAD": f"The node knows more than this log: was the log restored from a copy? {_PAST}",
    "GROUP_EXISTS": "`topolog get groups` lists them; `topolog alter group` changes one.",
    "GROUP_FIXED": "That of a group never changes: make a new group.",
    "GROUP_UNKNOWN": "`topolog get groups` lists them.",
    "IN_USE": "Drop or alter what needs it first; the message names it.",
    "LAST_COPY": "Let others load its copies first: `topolog baseline drain NODE`; or --accept-loss.",
    "LATE_FACT": "Nothing: what it reports was decided without it already.",
    "LEVEL_IN_FORCE": "Nothing: that level or a higher one is in force.",
    "LEVEL_UNKNOWN": "Upgrade the coordinators first: they do not know that level.",
    "LEVEL_UNSUPPORTED": "Upgrade the nodes that the message names first.",
    "MEMBER_ONLINE": "Stop the node first, or drain it: `topolog baseline drain NODE`.",
    "METADATA_CONFLICT": "Change the proposal so that both agree.",
    "NAMED_TWICE": "Leave one of the two out.",
    "NEVER_JOINED": "Let it join first, as a node of this cluster; operators ask the API (docs/security.md).",
    "NOBODY_ELSE": "Start another server that may hold its copies first.",
    "NODE_UNKNOWN": _NODES,
    "NOTHING_DIFFERS": "Nothing: there is no difference to repair.",
    "NOT_ACTIVE": "`topolog cluster activate` ends that; docs/baseline.md says what each state allows.",
    "NOT_A_MEMBER": "`topolog get baselines` shows who counts.",
    "NOT_ENDED": "Wait until the preview has ended: `topolog get sessions` shows how far it is.",
    "NOT_ONLINE": "Start the node first; of one that is gone for good `topolog baseline remove NODE` is right.",
    "NO_BASELINE": "`topolog cluster activate` makes the first one.",
    "NO_BOUNDARIES": "Declare a replica that can say where its tokens lie, or compare by hashes.",
    "NO_GROUPS": "Nothing: without groups there is nothing to exchange.",
    "NO_NODES": f"Name one or more. {_NODES}",
    "NO_PREVIEW": "`topolog get sessions` lists them.",
    "NO_SERVERS": "Start a node first.",
    "NO_SUCH_COLUMN": "`topolog get replicas -o wide` shows which columns replicas have.",
    "OBJECT_EXISTS": "Choose another name, or alter what is there; --if-needed passes over what holds already.",
    "OBJECT_OF_ANOTHER_KIND": "Choose another name: databases, tables and views share one space of names.",
    "OBJECT_UNKNOWN": "`topolog get tables` and `topolog get databases` list what there is.",
    "OPERATION_ONLY": "Ask the API for it, or `topolog`: no node may ask for that itself (docs/security.md).",
    "OTHER_TOKENS": "Name replicas that hold the same tokens, or the tokens that all of them hold.",
    "OUTCOME_FORGOTTEN": "The outcome is no longer kept: see what stands now, and ask anew if needed.",
    "OVERLAP": "Wait until the session that the message names has ended, or abort it.",
    "PLAN_IMPOSSIBLE": "Make the plan anew from what stands now.",
    "PLAN_IS_OLD": "Something has changed since the plan was made: make it anew from what stands now.",
    "PROCESS_DIED": "Nothing: the process that asked is dead; its next one asks for itself.",
    "RENAME_NOT_ALLOWED": "Make a new one under the new name.",
    "REPLACED": "Nothing: a newer process of the node has taken its place.",
    "SCHEMA_MISMATCH": "--columns compares the columns that all have in types that go together.",
    "SESSION_ENDED": "Nothing: the session has ended.",
    "STALE_INCARNATION": "Nothing: a newer process of the node is there.",
    "STALE_METADATA": "Read the type again and propose what is based on that: its older content was removed.",
    "STATE_CHANGING": "Ask again once the change of state is done; `topolog get pending` shows what it waits for.",
    "STRADDLES": "Ask for one part of the tokens, or with --node.",
    "SUPERSEDED": f"A newer process has asked. {_OWN_FOLDER}",
    "TOO_LARGE": _SMALLER,
    "TOO_MANY_CHANGES": "Wait until some of the open changes are over: `topolog get pending` shows for whom they wait.",
    "TOO_MANY_REPLICAS": "Withdraw replicas that are no longer needed.",
    "TOO_MANY_SCHEDULES": "Drop a schedule that is no longer needed.",
    "TOO_MANY_SEGMENTS": "Ask for fewer tokens at once (--ranges).",
    "TOO_MANY_SESSIONS": "Wait until some have ended: `topolog get sessions` shows how far they are.",
    "TYPE_BUSY": "Wait until what is pending for the type is accepted: `topolog get pending`.",
    "TYPE_REMOVING": "Propose it again when the removal is done: `topolog get pending` shows whom that waits for.",
    "TYPE_UNKNOWN": "`topolog get types` lists them.",
    "TYPE_CHANGE_NOT_ALLOWED": "Add a column of the new type under another name.",
    "UNKNOWN_REPLICA": "`topolog get replicas` lists them; does its validator run?",
    "UNKNOWN_SESSION": "`topolog get sessions` lists them.",
    "UNKNOWN_TABLE": "`topolog get replicas` lists the tables that have replicas.",
    "VERSION_UNKNOWN": "Base the proposal on a version that there was, or on none.",
    "VIEW_UNKNOWN": "`topolog get views` lists them.",
}


def remedy(code: str, rule: str, subject: str = "") -> str:
    """What helps against a refusal with this code; of a contradiction by the rule it breaks. Nothing if that is not
    known: the code is a service's own, or a newer coordinator's."""
    kind, _, name = subject.partition(" ")
    if code == "METADATA_CONFLICT":
        look = f" `topolog describe type {name}` shows what stands." if kind == "type" else ""
        return f"{OF_MERGES.get(rule, REMEDIES[code])}{look}"
    said = REMEDIES.get(code)
    if said is not None:
        return said.replace("NODE", name) if kind == "node" else said
    of_session = OF_SESSIONS.get(code, "")
    return f"{of_session[:1].upper()}{of_session[1:]}"
