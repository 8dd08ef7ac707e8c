"""ImageFolder: a folder with one folder of images a class, decoded when a sample is asked for. Needs Pillow."""

import importlib
import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from instep.errors import DataError, DescriptionError

ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


class ImageFolder(Dataset[tuple[Any, int]]):
    """Samples (image, class); made by `image_folder`. `classes` are the names, `targets` the class of every sample."""

    def __init__(
        self,
        files: list[str],
        targets: list[int],
        classes: list[str],
        *,
        size: tuple[int, int] | None,
        mode: str,
        as_tensor: bool,
    ) -> None:
        self.files = files
        self.targets = targets
        self.classes = classes
        self._size = size
        self._mode = mode
        self._as_tensor = as_tensor

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self._image(self.files[index]), self.targets[index]

    def _image(self, file: str) -> Any:
        pillow = _pillow()
        try:
            with pillow.open(file) as opened:
                image = opened.convert(self._mode)
        except OSError as error:
            raise DataError(f"{file} cannot be decoded: {error}") from error
        if self._size is not None:
            image = image.resize((self._size[1], self._size[0]), pillow.Resampling.BILINEAR)
        return _tensor(image) if self._as_tensor else image


def image_folder(
    folder: str | Path,
    *,
    size: int | tuple[int, int] | None = None,
    mode: Literal["RGB", "L"] = "RGB",
    as_tensor: bool = True,
) -> ImageFolder:
    """The images below a folder, `folder/class/…/image.jpg`, as samples (image, class number), decoded as they are needed.

    An image is a float32 tensor of shape (channels, height, width) from 0 to 1, resized to `size` (height, width) where that is
    given; with `as_tensor=False` it is Pillow's, for a transform that wants those. Classes are numbered by name.

    >>> photos = image_folder("photos", size=64)  # doctest: +SKIP
    >>> photos.classes, len(photos)  # doctest: +SKIP
    (['cat', 'dog'], 1200)
    """
    _pillow()
    root = Path(folder)
    if not root.is_dir():
        raise DescriptionError(f"image_folder({str(folder)!r}): there is no such folder.")
    classes = sorted(entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        raise DescriptionError(f"{root} has no folder in it; image_folder needs one for each class: {root}/cat/1.jpg.")
    files: list[str] = []
    targets: list[int] = []
    for number, name in enumerate(classes):
        found = _images(root / name)
        if not found:
            raise DescriptionError(f"{root / name} has no image in it ({', '.join(ENDINGS)}); remove it, or fill it.")
        files += found
        targets += [number] * len(found)
    shape = (size, size) if isinstance(size, int) else size
    return ImageFolder(files, targets, classes, size=shape, mode=mode, as_tensor=as_tensor)


def _images(folder: Path) -> list[str]:
    """By name, at any depth, so that the order is the same on every machine."""
    return sorted(
        os.path.join(path, name) for path, _, names in os.walk(folder) for name in names if name.lower().endswith(ENDINGS)
    )


def _tensor(image: Any) -> Tensor:
    array = np.asarray(image)
    channels_last = torch.from_numpy(array.copy() if not array.flags.writeable else array)
    channels_first = channels_last[None] if channels_last.ndim == 2 else channels_last.permute(2, 0, 1)
    return channels_first.contiguous().float().div_(255)


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise DescriptionError("image_folder needs Pillow: pip install pillow") from None
