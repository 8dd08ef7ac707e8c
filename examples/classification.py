"""Classification with what one usually wants: early stopping, the best weights, test data, a table of mistakes.

python examples/classification.py
"""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from instep import OneCycle, Trainer, data


def build(lr: float = 0.03, epochs: int = 8) -> Trainer:
    torch.manual_seed(0)
    images, labels = data.digits()
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 32), nn.ReLU(), nn.Linear(32, 10)
    )
    return Trainer(
        model,
        loss=cross_entropy,
        optimizer=torch.optim.AdamW(model.parameters()),
        schedule=OneCycle(max_lr=lr),
        train=(images[:1500], labels[:1500]),
        valid=0.1,
        test=(images[1500:], labels[1500:]),  # evaluated once, at the end; it decides nothing
        metrics=("accuracy", "f1"),
        monitor="valid/accuracy",
        patience=3,
        restore_best=True,
        epochs=epochs,
        batch_size=64,
        progress=False,
    )


def main() -> None:
    trainer = build()
    trainer.fit()
    valid, test = trainer.evaluate()["valid/accuracy"], trainer.evaluate("test")["test/accuracy"]
    print(f"best valid accuracy {valid:.1%}, test accuracy {test:.1%}")
    images, labels = data.digits()
    matrix = torch.tensor(trainer.evaluate((images, labels), report=True).tables["data/confusion_matrix"])
    wrong = matrix.clone().fill_diagonal_(0)
    there, chosen = divmod(int(wrong.argmax()), 10)
    print(f"the most frequent mistake: {int(wrong.max())} times a {there} is taken for a {chosen}")
    scores = trainer.predict(images[:3]).softmax(1)
    print("the first three:", ", ".join(f"{int(row.argmax())} ({row.max():.0%})" for row in scores))


if __name__ == "__main__":
    main()
