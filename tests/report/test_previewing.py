"""`instep.preview` and `instep preview`: what the model will see, and nothing left behind."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from instep import Trainer, preview
from instep.data import digits, source
from instep.errors import DescriptionError


def make(x: torch.Tensor, y: torch.Tensor) -> Trainer:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(x[0].numel(), 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Trainer(
        model,
        loss=F.cross_entropy,
        optimizer=optimizer,
        train=source((x, y), transform=lambda sample: (sample[0] + 0.1 * torch.rand_like(sample[0]), sample[1])),
        valid=0.1,
        epochs=1,
        progress=False,
    )


def test_it_says_shapes_ranges_and_classes_and_leaves_no_trace(tmp_path: Path) -> None:
    x, y = digits()
    looked, alone = make(x, y), make(x, y)
    before = torch.random.get_rng_state()
    shown = preview(looked)
    assert torch.equal(torch.random.get_rng_state(), before)
    text = str(shown)
    assert "train: 1,617 samples" in text
    assert "1 × 8 × 8" in text
    assert "valid: 180 samples" in text
    assert shown.save(tmp_path / "seen.png").read_bytes().startswith(b"\x89PNG")
    assert "<img src=" in shown._repr_html_()
    looked.fit()
    alone.fit()
    for one, other in zip(looked.model.parameters(), alone.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_it_warns_of_the_obvious() -> None:
    x, y = digits()
    assert preview(make((x * 255).round(), y)).warnings
    with pytest.raises(DescriptionError, match="there are no images in this data"):
        preview(make(torch.randn(50, 3), torch.randint(10, (50,)))).save("nowhere.png")
