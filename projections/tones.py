"""What a state means for whoever looks for trouble: pages and tables show one colour for one state."""

from collections.abc import Mapping

TONES: Mapping[str, str] = {
    **dict.fromkeys(("MEMBER", "VALID", "OK", "OWNING", "ACCEPTED", "GRANTED", "COMPLETED", "COMMITTED"), "ok"),
    **dict.fromkeys(("SUCCEEDED", "CURRENT", "SHOWN", "DONE", "AGREE", "REPAIRED", "USING", "EQUAL", "ACTIVE"), "ok"),
    **dict.fromkeys(("STOPPING", "MOVING", "SWITCHING", "RENTING", "OPEN", "PENDING", "QUEUED", "RUNNING"), "busy"),
    **dict.fromkeys(("PREPARED", "WARNING", "REMOVING", "AWAY", "OUTSIDER", "DRAINING", "DRAINED", "NONE"), "busy"),
    **dict.fromkeys(("PARTIAL", "INCONCLUSIVE", "UNKNOWN", "AHEAD", "PRE_CREATE", "PRE_ALTER"), "busy"),
    **dict.fromkeys(("PRE_RENAME", "PRE_DELETE"), "busy"),
    **dict.fromkeys(("OVERDUE", "FENCED", "SILENT", "LOST", "PAUSED", "REFUSED", "REJECTED", "FAILED"), "bad"),
    **dict.fromkeys(("DIFFER", "ROLLED_BACK", "EXPIRED", "ABORTED"), "bad"),
    **dict.fromkeys(("LEFT", "UNCHANGED"), "quiet"),
}
"""State -> ok, busy (something is under way, or wants to be looked at), bad, quiet. What is not here says neither."""
