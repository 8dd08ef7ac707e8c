"""Data: what users pass, which sample stands where, and how a batch is cut."""

from instep.data.order import Order
from instep.data.pieces import pieces

__all__ = ["Order", "pieces"]
