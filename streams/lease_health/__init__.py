"""Lease health: a faust app that measures how punctual heartbeats are, for people and alarms, never for a decision."""
