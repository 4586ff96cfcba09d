"""An example of a service on topolog: a small sharded store that agrees with its peers on what its rows are.

Rows lie in partitions; each partition has copies on two nodes, of which one acts as primary. Read it in this order; it
uses nothing of topolog but the public node client, its views of partitions and the error tree:

    replication/       how copies stay equal and no acknowledged write is lost: the argument, and the rules without I/O
    shards.py          these rules at work: what the node tells them, who waits for them, what they report
    disk.py            the rows on disk, so that they outlive the process
    courier.py         messages between nodes
    store.py           what clients ask: rows by type and key
    agreement.py       how it agrees on the type of its rows before it stores the first of a kind
    copies.py          its copies as others compare them, and what they find to be wrong put right
    serving.py         the HTTP side: 307 to the node that serves a row, 503 while nobody may
    program.py         one process: join, load, serve, leave; what to do when fenced, and when out of the cluster
    others.py          where a loader stores rows that belong elsewhere
    rows.py            where rows come from: CSV, JSON lines, Parquet
    types_of_rows.py   names and types of what the rows say, and conversions that lose nothing
    tpch.py            the rows that are loaded if nobody names others
"""
