"""The embedded digits."""

import zipfile
from pathlib import Path

import torch

from instep.data import digits
from instep.data.embedded import FILE


def test_the_images_and_their_labels() -> None:
    images, labels = digits()
    assert images.shape == (1797, 1, 8, 8)
    assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
    assert (images.min().item(), images.max().item()) == (0, 1)
    assert torch.equal(images * 16, (images * 16).round())
    assert torch.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert (images[0, 0] * 16).int().tolist()[0] == [
        0,
        0,
        5,
        13,
        9,
        1,
        0,
        0,
    ]  # as in the source


def test_each_call_gives_tensors_of_its_own() -> None:
    digits()[0].zero_()
    assert digits()[0].max() == 1


def test_the_file_is_small_and_says_whose_it_is() -> None:
    assert FILE.stat().st_size < 60_000
    assert zipfile.is_zipfile(FILE)
    words = Path(FILE).with_name("DIGITS.md").read_text(encoding="utf-8")
    for needed in ("Alpaydin", "Kaynak", "CC BY 4.0", "10.24432/C50P49"):
        assert needed in words
