"""A folder of images by class."""

import builtins
from pathlib import Path
from typing import Any

import pytest
import torch

from feeds import loader, read
from instep.data import class_balanced, image_folder
from instep.data.sources.recognize import as_source
from instep.errors import DataError, DescriptionError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    for name, count in (("dog", 2), ("cat", 3)):
        (tmp_path / name / "deep").mkdir(parents=True)
        for number in range(count):
            colour = (255, 0, number)
            image.new("RGB", (6, 4), colour).save(tmp_path / name / ("deep" if number else "") / f"{number}.png")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    return tmp_path


def test_classes_by_name_and_images_when_they_are_needed(folder: Path) -> None:
    data = image_folder(folder)
    assert (data.classes, data.targets, len(data)) == (["cat", "dog"], [0, 0, 0, 1, 1], 5)
    image, label = data[1]
    assert (image.shape, image.dtype, label) == ((3, 4, 6), torch.float32, 0)
    assert image[:, 0, 0].tolist() == [1.0, 0.0, pytest.approx(1 / 255)]
    assert image_folder(folder, size=(2, 3), mode="L")[0][0].shape == (1, 2, 3)
    assert image_folder(folder, size=5)[0][0].shape == (3, 5, 5)
    assert image_folder(folder, as_tensor=False)[0][0].size == (6, 4)


def test_they_are_loaded_and_balanced(folder: Path) -> None:
    made = loader(as_source(image_folder(folder), "train"), sampler=class_balanced(samples=8), batch_size=8, workers=1)
    (batch,) = read(made, range(1))
    assert batch.data[0].shape == (8, 3, 4, 6)
    assert batch.data[1].bincount().tolist() == [4, 4]


def test_an_image_that_cannot_be_decoded_is_named(folder: Path) -> None:
    broken = folder / "cat" / "deep" / "1.png"
    broken.write_bytes(b"hello")
    with pytest.raises(
        DataError, match=rf"sample 1 of train cannot be loaded: DataError: {broken} cannot be decoded: cannot ident"
    ):
        read(loader(as_source(image_folder(folder), "train")))


def test_folders_that_cannot_be_used(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DescriptionError, match=r"image_folder\('nowhere'\): there is no such folder"):
        image_folder("nowhere")
    with pytest.raises(DescriptionError, match="deep has no folder in it; image_folder needs one for each class"):
        image_folder(folder / "dog" / "deep")
    (folder / "empty").mkdir()
    with pytest.raises(DescriptionError, match="empty has no image in it"):
        image_folder(folder)


def test_pillow_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr("importlib.import_module", without)
    with pytest.raises(DescriptionError, match="image_folder needs Pillow: pip install pillow"):
        image_folder(tmp_path)
