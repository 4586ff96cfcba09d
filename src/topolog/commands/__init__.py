"""The commands that wire everything: each file is a composition root of its own."""
