"""Why a record is a dead letter: what could not be read, whether it can be now, what became of what it asked for."""

from collections.abc import Iterator

from topolog.projections import letters
from topolog.projections.explain import with_next
from topolog.projections.resources import DeadLetterDetail, Explanation
from topolog.projections.sentences import listed
from topolog.projections.store import Reading


def explain_letter(reading: Reading, name: str) -> Explanation:
    """One dead letter; raises NotFound as `letters.letter` does. It has no past."""
    found = letters.letter(reading, name)
    commands = [f"topolog explain request {found.request}"] if found.request else []
    if _may_be_replayed(found):
        commands.insert(0, f"topolog replay dead-letter {name}")
    explained = Explanation(_sentence(found), dict(_facts(found)))
    return with_next(explained, *commands, f"topolog describe dead-letter {name}", "topolog get dead-letters")


def _may_be_replayed(found: DeadLetterDetail) -> bool:
    is_open = found.readable is not None and found.request is not None and found.request_status is None
    return is_open and found.truncated_from is None and not found.replayed_as


def _sentence(found: DeadLetterDetail) -> str:
    where = f"offset {found.offset} of {found.topic}" if found.offset is not None else "an unknown place"
    said = f"Dead letter {found.id} stood at {where}: {found.reason.rstrip('.')}."
    if found.readable is None:
        return f"{said} This version cannot read it either."
    if found.request_status is not None:
        return f"{said} This version reads request {found.request} in it, which was decided: {found.request_status}."
    return f"{said} This version reads a {found.readable} in it."


def _facts(found: DeadLetterDetail) -> Iterator[tuple[str, str]]:
    yield "died", found.time
    yield "schema", found.schema
    if found.truncated_from is not None:
        yield "cut", f"{found.size} of {found.truncated_from} bytes are kept, so it cannot be replayed"
    if found.replays is not None:
        yield "is a replay of", f"dead letter {found.replays}, which died again"
    if found.replayed_as:
        yield "replays of it that died again", listed(found.replayed_as)
    if found.readable is None:
        yield "what helps", "a version that knows this schema, or, if it is none of topolog's, whoever sent it"
    elif _may_be_replayed(found):
        yield "what helps", "to replay it: the request is decided then, by what holds now"
