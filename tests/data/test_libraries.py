"""Other libraries' transforms as plain callables, where they are installed: the same augmentation by any number of workers."""

import importlib
from typing import Any

import numpy as np
import pytest
import torch

from feeds import Squares, assert_same, loader, read
from instep.data import on
from instep.data.loading.augmenters import augmenters
from instep.data.sources.recognize import as_source

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs


def library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as error:  # one that does not fit the torch that is installed raises what it likes
        pytest.skip(f"{name}: {error!r}")


class Images(Squares):
    """Height, width, channels, as NumPy and Albumentations have them."""

    def __init__(self) -> None:
        super().__init__(20)
        self.images = np.random.RandomState(0).randint(0, 255, (20, 12, 12, 3)).astype(np.uint8)

    def __getitem__(self, index: int) -> Any:
        return self.images[index], index


def tensors(sample: Any) -> Any:
    return torch.from_numpy(sample[0]).permute(2, 0, 1) / 255, sample[1]


def assert_same_by_any_workers(source: Any, **options: Any) -> Any:
    """And another augmentation in another epoch; wherever batches are cut."""
    batches = read(loader(source, **options))
    for workers in (0, 1, 3):
        assert_same(read(loader(source, workers=workers, **options)), batches)
    first, second = ([batch for batch in batches if batch.epoch == epoch] for epoch in (0, 1))
    samples = [
        dict(zip(torch.cat([b.indices for b in e]).tolist(), torch.cat([b.data[0] for b in e]), strict=True))
        for e in (first, second)
    ]
    assert any(not torch.equal(samples[0][index], samples[1][index]) for index in range(20))
    return batches


def test_kornia() -> None:
    augmentation = library("kornia.augmentation")
    both = augmentation.AugmentationSequential(
        augmentation.RandomHorizontalFlip(p=0.5), augmentation.RandomGaussianNoise(p=0.5), augmentation.ColorJiggle(0.2, 0.2, 0.2)
    )
    source = as_source(Images(), "train").transformed(tensors)
    assert_same_by_any_workers(source, batch_transform=on(0, both))
    one = augmentation.RandomHorizontalFlip(p=0.5, keepdim=True)
    assert_same_by_any_workers(as_source(Images(), "train").transformed(lambda sample: on(0, one)(tensors(sample))))


def test_albumentations() -> None:
    """It keeps generators of its own: they are made to be ours, wherever it is found."""
    library_of = library("albumentations")
    transform = library_of.Compose(
        [
            library_of.HorizontalFlip(p=0.5),
            library_of.GaussNoise(p=0.7),
            library_of.OneOf([library_of.Rotate(p=1), library_of.RandomBrightnessContrast(p=1)], p=0.8),
        ]
    )

    class Augmented(Images):
        def __getitem__(self, index: int) -> Any:
            return transform(image=self.images[index])["image"], index

    class Held(Images):
        def __init__(self) -> None:
            super().__init__()
            self.transforms = {"train": [transform]}

        def __getitem__(self, index: int) -> Any:
            return self.transforms["train"][0](image=self.images[index])["image"], index

    given = assert_same_by_any_workers(as_source(Images(), "train").transformed(transform))
    for data in (Augmented(), Held()):
        assert_same(assert_same_by_any_workers(as_source(data, "train")), given)
    assert_same(read(loader(as_source(Images(), "train").transformed(lambda s: (transform(image=s[0])["image"], s[1])))), given)
    assert augmenters(Images(), None) == []
    named = as_source([{"image": image, "mask": image[..., 0]} for image in Images().images], "train").transformed(transform)
    assert set(next(loader(named).batches(0)).data) == {"image", "mask"}

    class Bare(Images):
        def __getitem__(self, index: int) -> Any:
            return self.images[index]

    assert read(loader(as_source(Bare(), "train").transformed(transform)))[0].data.shape == (4, 12, 12, 3)


def test_torchvision() -> None:
    v2 = library("torchvision.transforms.v2")
    both = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomCrop(8), v2.ColorJitter(0.3, 0.3)])
    source = as_source(Images(), "train").transformed(lambda sample: both(tensors(sample)))
    assert assert_same_by_any_workers(source)[0].data[0].shape == (4, 3, 8, 8)
