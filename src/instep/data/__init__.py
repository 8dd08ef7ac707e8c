"""Data: what users pass, which sample stands where, how it is loaded, and how a batch is cut."""

from instep.data.augmenters import on
from instep.data.images import image_folder
from instep.data.order import Order
from instep.data.padding import pad
from instep.data.pieces import pieces
from instep.data.sampling import class_balanced, weighted

__all__ = ["Order", "class_balanced", "image_folder", "on", "pad", "pieces", "weighted"]
