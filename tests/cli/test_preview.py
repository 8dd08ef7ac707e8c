"""`instep preview`."""

from pathlib import Path

import pytest

from cli.said import Instep


@pytest.mark.usefixtures("folder")
def test_the_recipe_can_be_looked_at(instep: Instep) -> None:
    said = instep("preview", "--save", "seen.png", "--batch-size", "32")
    assert said.code == 0, said.err
    assert "train: " in said.out
    assert Path("seen.png").read_bytes().startswith(b"\x89PNG")
    assert said.out.endswith("the images are in seen.png\n")


@pytest.mark.usefixtures("build_file")
def test_data_without_images_has_no_picture(instep: Instep) -> None:
    assert instep("preview", "my.py").code == 0
    said = instep("preview", "my.py", "--save", "seen.png")
    assert said.code == 2
    assert "there are no images in this data" in said.err
    late = instep("preview", "--lr", "1", "my.py")
    assert late.code == 2
    assert "the file comes first: instep preview my.py" in late.err
