"""Data: what users pass, which sample stands where, how it is loaded, and how a batch is cut."""

from instep.data.data_source import source
from instep.data.loading.augmenters import on
from instep.data.order import Order
from instep.data.padding import pad
from instep.data.pieces import pieces
from instep.data.sampling import class_balanced, weighted
from instep.data.sources.images import image_folder

__all__ = ["Order", "class_balanced", "image_folder", "on", "pad", "pieces", "source", "weighted"]
