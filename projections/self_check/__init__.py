"""Do projection stores hold what the log says: anti-entropy for topolog's own stores.

Threats. A bit flips in memory before RocksDB has made its checksum, so that it is stored with a good one; a file of the
store is damaged, lost or put back from a copy; a store was written by a build with a defect. A projector that starts
sees of this what changes the hash of the newest rows, and not what is wrong in history, decisions and indexes. And the
cure must not be worse: a check that disturbs the projector, a mending that copies the fault of one store to another,
or that gives up in the middle.

Invariant. A store that is found equal holds, of what follows from `decisions`, byte for byte what one fold of the log
makes of it up to the position where the store stands; a mended one does so afterwards. Nothing else is ever written.

Argument. A store is opened beside its projector, without its lock, and holds still at one position (`opened.py`). A
rebuild of the log, by the projector's own fold, is cut at that very position (`rebuild.py`), for at no other one are
the two the same. Both are then digested bucket by bucket, along borders that the rebuild gives (`buckets.py`); only
buckets whose digests differ are read row by row (`comparing.py`), and each row that differs is named (`findings.py`).
The log is the truth: what differs is never settled between stores, so a majority of them proves nothing. Where the
store stands is not believed from its header alone, which may be what is damaged: its decisions carry the chain hashes
of the log, and the newest of them that is the log's own says where to compare (`standing.py`). A store that is whole in
itself and stands where the log has something else is of another log, and is left alone.

Mending (`checking.py`) has the store's lock, compares under it, and writes what the rebuild has: the header first, then
batch by batch. Every batch brings the store nearer to the rebuild at one position; killed in between, the store is one
that differs less, at the same position, and the next run mends the rest. What RocksDB cannot read is moved aside.

Side families (`sides.py` of projections) do not follow from `decisions`, and their topics forget: their rows are
decoded, no more. One that cannot be is removed, and its topic is read anew.
"""
