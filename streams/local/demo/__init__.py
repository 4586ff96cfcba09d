"""An example of a service on topolog: a small sharded store that agrees with its peers on what its rows are.

Read it in this order; it uses nothing of topolog but the public node client and the error tree:

    store.py           the service: what a node checks before it writes, and around what it reads
    agreement.py       how it agrees on the type of its rows before it stores the first of a kind
    program.py         one process: join, load, serve, leave; what to do when fenced, and when out of the cluster
    serving.py         the HTTP side, which says 503 while the node is fenced
    rows.py            where rows come from: CSV, JSON lines, Parquet
    types_of_rows.py   names and types of what the rows say, and conversions that lose nothing
    tpch.py            the rows that are loaded if nobody names others
"""
