"""An objective of your own: a loss in two parts, each in the history, and a weight for every sample.

    python examples/custom_objective.py

`Loss(value, count)` says what the mean is over: here the sum of the weights. So a split batch stays exact.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import Loss, OneCycle, Trainer, data


def objective(model: nn.Module, batch: dict[str, Tensor]) -> Loss:
    scores = model(batch["image"])
    each = cross_entropy(scores, batch["label"], reduction="none")
    confidence = scores.logsumexp(1).square()  # keeps the scores small
    count = batch["weight"].sum()
    parts = {
        "classes": (each * batch["weight"]).sum() / count,
        "confidence": 1e-3 * (confidence * batch["weight"]).sum() / count,
    }
    return Loss(parts["classes"] + parts["confidence"], count, output=scores, target=batch["label"], parts=parts)


def build(lr: float = 0.01, epochs: int = 5, update_cycle: int = 4) -> Trainer:
    torch.manual_seed(0)
    images, labels = data.digits()
    weights = torch.ones(len(labels))
    weights[labels == 8] = 3.0  # an 8 counts three times
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return Trainer(
        model,
        objective=objective,
        optimizer=torch.optim.AdamW(model.parameters()),
        schedule=OneCycle(max_lr=lr),
        train={"image": images, "label": labels, "weight": weights},
        valid=0.2,
        metrics="accuracy",
        epochs=epochs,
        batch_size=64,
        update_cycle=update_cycle,
        progress=False,
    )


def main() -> None:
    losses = []
    for update_cycle in (1, 4):
        trainer = build(update_cycle=update_cycle)
        trainer.fit()
        found = trainer.evaluate()
        print(f"update_cycle={update_cycle}:", ", ".join(f"{name} {value:.3f}" for name, value in found.items()))
        losses.append(found["valid/loss"])
    print("a split batch gives the same training:", abs(losses[0] - losses[1]) < 1e-3)


if __name__ == "__main__":
    main()
