"""How the copies of a partition stay equal: one node's part of it, without clock, random bits, threads or a network.

Threats. A write that was acknowledged is on one copy only, and that copy dies. A primary that was put out goes on
writing to copies that obey another by now. A copy that was away comes back and is taken for whole. A load misses what
is written while it runs, or brings back what was deleted. Two owners differ in a write that nobody ever acknowledged,
and a reader sees it come and go with each new primary.

Invariant. Every copy that is OWNING in the log holds every acknowledged write, or its process has died since. What a
read has returned counts as acknowledged. At rest all owners of a partition are equal.

Argument, by the rules DS3-DS9. Everything that travels names a token, the position that made the sender's
primary act, and the listing (`since`) of the copy that it concerns; both are positions of the one log, so they name the
life of the group too, and what names a position that this node has not applied waits until it has (DS9).

  DS3  A write is acknowledged once each copy that is OWNING or MOVING in the map adopted at that moment has said that
       it has stored it under that very listing. Whoever is primary next is one of these copies: a copy comes to own
       only by a load, the load begins only after the primary has applied the listing, and from then on the copy is one
       of those that are waited for. So the next primary has the write, or it has refused it, and then the write was
       not acknowledged.
  DS4  Under a new token the other owners first replace what they hold by what the primary holds. Until all have, the
       primary stores nothing, reads nothing and supplies nobody else. An owner's rows are exchanged at once, when all
       pages are there: until then it holds all that was ever acknowledged, for under this token nothing was yet.
  DS5  A load is of one listing and one token. Another of either begins it anew, from nothing.
  DS7  What a load does not bring is gone afterwards. A supplier that knows what the other already has leaves out
       values, never rows, so a delta is a load like any other.
  DS8  What runs when the token goes fails; only what waited for the token is begun under it.
  DS9  A copy stores, confirms and supplies under the acting token of the map that it has adopted, and no other.

Where these rules are silent, and why it is done like this:

  - One mechanism, the *intake*, is load and reconciliation: the copy pulls pages, in the order of keys, and writes that
    arrive meanwhile count by their version. The copy pulls, so a supplier keeps nothing about who loads from it.
  - A version is (token, number). Numbers are given by the primary; the same version is the same write everywhere.
  - A read waits for the write that it would return. Otherwise a reader sees what may yet be lost with its primary.
  - A write whose client has gone is still brought to all copies: otherwise owners would differ at rest.
  - A confirmation counts for one listing. A copy that turns from MOVING to OWNING confirms again: one more message, and
    no rule about which listings follow one another.
  - Who waits repeats (`resend`), who answers keeps nothing. Repeats and late messages are harmless by version, number
    and page; a message that is refused is counted, not answered.
  - A deletion leaves a marker until all copies have it; a copy that is still loading keeps its markers to the end, for
    the page that is on its way to it may be older than the deletion.
  - The supplier is an owner chosen by the partition's number, so that one primary does not supply everybody. It needs
    the primary's word for each page, which is also the proof that the primary has applied the demander's listing.
  - A process that has been started again knows from the log what its predecessor held, and holds nothing: it takes part
    from the joining of its own incarnation on, and speaks of no copy that it was not given since.
  - Rows of a copy that the log lists no more are worth nothing but time: they stay as material for a delta until the
    node is given copies of that group again.

Read messages.py, content.py (rows and versions), following.py (a copy that another node leads), leading.py (the acting
primary's side), partition.py (what a new map makes of a copy), replica.py (all copies of one node).
"""
