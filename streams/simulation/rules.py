"""The rules that a simulated cluster is judged by, each with a name; a violation says which one broke."""

from enum import Enum


class Rule(Enum):
    ONE_FOLD = "readers at one position have one chain hash and one state, those of the ledger"
    ONE_AUTHOR = "what is accepted of a term was written by the one coordinator that started it"
    ONE_OUTCOME = "a request that reached the log has one outcome for ever, for the content that came first"
    OPERATIONS = "what is an operator's to ask is taken from `operations` alone"
    VERSIONS = "versions rise by one, belong to one proposal, are accepted in order and only gain fields"
    VIEWS = "a server's join or leave is the next major view, what else moves copies or changes the state a minor one"
    GROUPS = "a group's number is given once and counted up, and what it names keeps its partitions"
    MEMBER_LEASE = "only members hold leases"
    FRESH_LEASE = "who passes the lease check has applied all that was in the log a fence ago"
    ANCHORED_LEASE = "a lease runs a fence from handing over a heartbeat whose echo its holder has read"
    ECHOES = "what is echoed is a heartbeat of that very incarnation"
    READS = "a read that its guard lets pass ran under one lease that never lapsed"
    HOOKS = "a service is told each decision once, in order, before it counts as applied"
    ACCEPTED = "what is accepted is applied by every server that holds a lease"
    PRESUMED_IN_TIME = "a silent holder is presumed fenced only when all leases that miss the decision are over"
    LEFT_IN_TIME = "a node leaves only when its lease is over: released, replaced, dead or waited for"
    DEAD_STAY_OUT = "a certificate that was read has its effect: who is dead is no member and does not wait to be one"
    NO_FALSE_REMOVAL = "a node that nothing has disturbed is not removed for silence"
    ONE_PRIMARY = "whoever operates under a token has nobody begin under a later one before it has ended"
    OWNER_ACTS = "who acts for a partition is a member whose copy owns"
    LIVE_PRIMARY = (
        "an exchange takes no partition from a node that acts for it, and from none a copy of its present life"
    )
    NOBODY_ACTS = "where somebody acted nobody acts only once it has left"
    PRESENT = "whoever begins to act has a copy that the log lists of its present life, or has said that it is whole"
    CONFIRMED = "where somebody acts no copy of a former life owns whose node has not said that it is whole"
    LOST = "nothing is lost or begins empty while an owner of it is a member and has not said that it has none"
    PAUSED = "what waits for an owner stays as it is"
    LISTED = "who has not been heard is not listed anew, for writes would wait for it"
    SERVED = "what a present owner can serve is served soon, if nothing befalls that one and the leader"
    ALL_WANTED = "nothing is cleared or handed over, and nothing at rest, before all own that the affinity wants"
    ASKED_ONCE = "the time of a server that is not heard runs from its first question, however many exchanges end"
    LATE = "an answer that comes late counts soon, if nothing befalls the leader"
    ENDS = "an answer that comes late leads to one more exchange, and nothing else does"
    NO_WRITE_LOST = "who acts holds every acknowledged write, unless an operator or the policy has given it up"
    TRANSITIONS = "a copy changes its state only as the table of transitions allows"
    EXCHANGES = "exchanges end in the order of their views and say whom they still need; till then nothing moves"
    NO_MIXING = "no member has on its disk what another history acknowledged behind the fork"
    NO_FALSE_REFUSAL = "who is refused for its past has lived in another history, behind the fork"
    OLDER_LOG = "who is refused as AHEAD meets a log without a grant behind the fork, as FORKED one that went on"
    SERVES = "while nothing may be written nothing is acknowledged, while nothing is served nothing is read"
    COLD = "nothing of a persistent group is given up while fewer than a quorum of the baseline are here"
    BASELINE = "the baseline changes by a request, a drain or a due adjustment, and drops nobody's last copies unasked"
    PLACED = "at rest who is to hold a persistent group is a member of the baseline and not drained"
    FOUND_AGAIN = "at rest nothing is lost of which a member has all, on the disk of its last life"
    ONE_END = "what is prepared is committed or rolled back, once, and no change of an object begins before that"
    INCARNATIONS = "an object has a number that no other ever had, a column one that no other of its table ever had"
    NACK = "a change that a member cannot apply is not committed as if it had"
    NO_STALE_DEFINITION = "what is answered or admitted suits a definition that no commit had ended when it was begun"
    TWO_ADJACENT = "servers that may act use the committed definition of an object, or the one that is to follow it"
    WRITES_SUIT_BOTH = "a write suits the definition that is committed, whatever becomes of an open change"
    RIGHTS = "who is allowed something has a committed right to it"
    TTL = "nothing expires but under a lease, and by no shorter time than the committed one"
    STATE_BINDS = "what the cluster's state forbids is neither decided nor done, and by itself it forbids no less"
    HEARD = "a client honours a right for a fence at most behind the commit of its revocation"
    DELETE_AFTER_CLOSE = "data is deleted when it is closed, and nobody says so before"
    CLOSED_STAYS_CLOSED = "a read shows all that was written to what it shows, and nothing that was written to another"
    RUNS_ON = "no process stops with an error that nobody asked for"
    CONVERGES = "once the faults are over the cluster comes to rest"


class Broken(Exception):
    """A rule does not hold; the runner adds seed, step and history."""

    def __init__(self, rule: Rule, detail: str) -> None:
        super().__init__(rule, detail)
        self.rule = rule
        self.detail = detail
