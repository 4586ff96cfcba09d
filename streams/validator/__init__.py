"""The validator: the role that reads and writes replicas of tables for sessions of anti-entropy."""
