"""What operators can ask of the exchange."""

from typing import ClassVar

from topolog.events.asked import Request


class LossResetRequested(Request, frozen=True):
    """Give up what is lost of group `name` (EX19)."""

    SUBJECT: ClassVar[str] = "group {0.name}"

    name: str


class ExchangeRequested(Request, frozen=True):
    """Ask all servers for their maps although nothing has changed."""

    SUBJECT: ClassVar[str] = "exchange"


ExchangeRequest = LossResetRequested | ExchangeRequested
