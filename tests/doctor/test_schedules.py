"""What is said of a scheduler that steps before its optimizer: what it costs differs."""

from typing import Any

import pytest
import torch

import instep

Schedule = torch.optim.lr_scheduler.LRScheduler


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize(
    ("schedule", "severity", "words"),
    [
        (lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), None, "0.01, was never used"),
        (lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3), "warning", "comes one scheduler step too early"),
    ],
)
def test_a_scheduler_that_steps_first_is_told_by_what_it_costs(schedule: Any, severity: str | None, words: str) -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with instep.watch(aloud=False) as watching:
        scheduler: Schedule = schedule(optimizer)
        for _ in range(4):
            scheduler.step()
            for _ in range(5):
                optimizer.zero_grad()
                model(torch.randn(8, 3)).square().mean().backward()
                optimizer.step()
    (finding,) = [finding for finding in watching.findings if finding.id == "scheduler-before-optimizer"]
    assert finding.severity == severity
    assert words in finding.message
