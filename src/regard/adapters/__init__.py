"""Watching: what was made with `regard`, and what others wrote."""

from regard.adapters.watching import watch

__all__ = ["watch"]
