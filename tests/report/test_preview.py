"""A preview as text and as a file."""

import struct
import zlib

import numpy as np

from instep.data.preview.summary import ColumnSummary, Preview, SetSummary
from instep.data.sources.data_names import DataNames
from instep.report.picture_grid import for_file, for_terminal, grid, resized
from instep.report.png import SIGNATURE, png
from instep.report.preview import picture_file, render

RED = np.full((4, 6, 3), (255, 0, 0), np.uint8)
WHITE = np.full((6, 4, 3), 255, np.uint8)

TRAIN = SetSummary(
    "train",
    1000,
    256,
    (
        ColumnSummary("[0]", "float32", (3, None, 8), -1.5, 2.25, 0.123456, 1.0),
        ColumnSummary("[1]", "int64", (), 0, 1, 0.25, 0.4),
        ColumnSummary("[2]", "text", (), words=("one\x1b[31m", "two")),
    ),
    {0: 750, 1: 250},
    all_counted=True,
    padding=0.25,
)


def test_sets_as_tables() -> None:
    text = render(
        Preview((TRAIN,), ("something is odd about this data, and this sentence is longer than the width of it",)), width=60
    )
    assert text.splitlines()[:5] == [
        "train: 1,000 samples, 256 of them looked at, as the model",
        "gets them",
        "column  type     shape         least  most    mean  std",
        "[0]     float32  3 × ? × 8      -1.5  2.25  0.1235    1",
        "[1]     int64    one a sample      0     1    0.25  0.4",
    ]
    assert "padding: 25% of a batch" in text
    assert "  [2]: one [31m | two" in text
    assert "classes: 2 in all samples, from 250 to 750 samples each" in text
    assert "      0      750  75.0%  ████████████████" in text
    assert "      1      250  25.0%  █████" in text
    assert text.splitlines()[-2:] == [
        "warning: something is odd about this data, and this sentence",
        "         is longer than the width of it",
    ]


def test_columns_and_classes_have_the_names_that_the_data_has() -> None:
    columns = (
        ColumnSummary("[0]", "float32", (30,), -1.5, 2.25, 0.1, 1.0, features=("age\x1b[31m", *(f"f{i}" for i in range(29)))),
        ColumnSummary("[1]", "int64", (), 0, 2, 0.25, 0.4, called="kind"),
    )
    summary = SetSummary("train", 4, 4, columns, {0: 3, 1: 1}, names=DataNames((), "kind", ("new", "used")))
    lines = render(Preview((summary,)), width=60).splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("[1] kind  int64    one a sample"))
    assert lines[at + 1].startswith("  [0] is age [31m, f0, f1, f2")
    assert any(line.endswith("f22 and 6 more") for line in lines[at + 2 :])
    assert [line.split()[:2] for line in lines[-2:]] == [["new", "3"], ["used", "1"]]


def test_unknown_lengths_and_many_classes() -> None:
    summary = SetSummary("valid", None, 64, (), dict.fromkeys(range(100), 3))
    text = render(Preview((summary,)))
    assert "valid: an unknown number of samples, 64 of them looked at" in text
    assert text.endswith("classes: 100 in the samples looked at, from 3 to 3 samples each")


def test_pictures_and_texts() -> None:
    shown = Preview((TRAIN,), (), (RED, WHITE), ("1", "0"), "as they are, 0 to 1", ("a b", "c\nd"))
    plain = render(shown)
    assert "2 images of train, as they are, 0 to 1\nclasses 1, 0" in plain
    assert "decoded:\n  a b\n  c d" in plain
    assert "\x1b" not in plain
    coloured = render(shown, colour=True)
    assert "\x1b[38;2;255;0;0;48;2;255;0;0m▀" in coloured
    assert "\x1b[0m\n" in coloured


def test_a_grid_holds_every_picture() -> None:
    whole = grid([RED, WHITE, RED], across=2)
    assert whole.shape == (6 + 2 + 6, 6 + 2 + 6, 3)
    assert whole[0, 0].tolist() == [255, 0, 0]
    assert whole[0, 8].tolist() == [255, 255, 255]
    assert whole[8, 0].tolist() == [255, 0, 0]
    assert for_file([RED]).shape == (44, 66, 3)
    assert for_file([np.zeros((1024, 2048, 3), np.uint8)]).shape == (256, 512, 3)


def test_lines_fit_the_terminal() -> None:
    pictures = [np.random.RandomState(0).randint(0, 255, (64, 64, 3)).astype(np.uint8)] * 24
    for width in (20, 80, 200):
        lines = for_terminal(pictures, width=width, colour=False)
        assert max(map(len, lines)) <= width
    assert len(for_terminal([RED], width=80, colour=False)) == 2
    assert for_terminal([WHITE], width=80, colour=False)[0] == "@@@@"


def test_resizing_takes_means() -> None:
    picture = np.array([[0, 100], [200, 100]], np.uint8)[..., None].repeat(3, -1)
    assert resized(picture, 1, 1)[0, 0].tolist() == [100, 100, 100]
    assert resized(picture, 2, 2) is picture


def test_the_file_is_a_png() -> None:
    data = png(RED)
    assert data.startswith(SIGNATURE)
    chunks, rest = {}, data[8:]
    while rest:
        (length,) = struct.unpack(">I", rest[:4])
        kind, body, check = rest[4:8], rest[8 : 8 + length], rest[8 + length : 12 + length]
        assert struct.unpack(">I", check)[0] == zlib.crc32(kind + body)
        chunks[kind], rest = body, rest[12 + length :]
    assert struct.unpack(">II", chunks[b"IHDR"][:8]) == (6, 4)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(4, 1 + 18)
    assert rows[:, 0].tolist() == [0] * 4
    assert np.array_equal(rows[:, 1:].reshape(4, 6, 3), RED)
    assert picture_file(Preview((TRAIN,))) is None
    assert (picture_file(Preview((TRAIN,), pictures=(RED,))) or b"").startswith(SIGNATURE)
