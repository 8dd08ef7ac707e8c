"""Fine-tuning: a body that was trained on one task, a new head for another; first the head alone, then both, the body slower.

python examples/fine_tuning.py
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from instep import OneCycle, Trainer, data, freeze, frozen, param_groups


def make_body() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())


def pretrain(epochs: int = 3) -> nn.Sequential:
    """A body that tells the digits from 0 to 4."""
    images, labels = data.digits()
    small = labels < 5
    model = nn.Sequential(make_body(), nn.Linear(64, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    train = (images[small], labels[small])
    Trainer(model, loss=cross_entropy, optimizer=optimizer, train=train, epochs=epochs, progress=False).fit()
    body = model[0]
    assert isinstance(body, nn.Sequential)
    return body


def build(lr: float = 0.01, epochs: int = 5) -> Trainer:
    torch.manual_seed(0)
    images, labels = data.digits()
    large = labels >= 5  # the new task: 200 images of the digits from 5 to 9
    model = nn.Sequential()
    model.add_module("body", pretrain())
    model.add_module("head", nn.Linear(64, 5))
    freeze(model, "body")  # weights and the statistics of BatchNorm stay
    groups = param_groups(model, {"body": {"lr": lr / 10}}, lr=lr, weight_decay=0.01, no_decay=True)
    return Trainer(
        model,
        loss=cross_entropy,
        optimizer=torch.optim.AdamW(groups),
        schedule=OneCycle(max_lr=lr),  # the groups keep their ratio
        unfreeze_at={2: "body"},
        train=(images[large][:200], labels[large][:200] - 5),
        valid=(images[large][200:], labels[large][200:] - 5),
        metrics="accuracy",
        epochs=epochs,
        batch_size=32,
        progress=False,
    )


def main() -> None:
    trainer = build()
    print(frozen(trainer.model))
    before = trainer.model.body[1].weight.clone()
    for update in trainer.updates():
        if (update.step + 1) % trainer.steps_per_epoch == 0:
            moved = not torch.equal(before, trainer.model.body[1].weight)
            print(f"epoch {update.epoch}: loss {update.loss:.3f}, the body {'has moved' if moved else 'has not moved'}")
    print(f"accuracy {trainer.evaluate()['valid/accuracy']:.1%}")


if __name__ == "__main__":
    main()
