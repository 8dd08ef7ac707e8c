"""The handwritten digits that come with Instep. Where they are from and whose they are: DIGITS.md beside this file."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FILE = Path(__file__).parent / "digits.npz"


def digits() -> tuple[Tensor, Tensor]:
    """1,797 images (float32, 1 × 8 × 8, from 0 for paper to 1 for ink) and their labels (int64, 0 to 9).

    >>> images, labels = digits()
    >>> images.shape, labels[:3].tolist()
    (torch.Size([1797, 1, 8, 8]), [0, 1, 2])
    """
    with np.load(FILE, allow_pickle=False) as stored:
        images, labels = torch.from_numpy(stored["images"]), torch.from_numpy(stored["labels"])
    return images.unsqueeze(1).float() / 16, labels.long()
