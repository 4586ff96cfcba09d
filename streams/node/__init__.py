"""The node side: one lease, one fold, and the client that services embed."""
