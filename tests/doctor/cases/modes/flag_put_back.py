"""A tagger whose evaluation puts the mode back by its flag, first at step 240."""

import torch
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 24)
        self.lstm = nn.LSTM(24, 32, num_layers=2, dropout=0.4, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.table(words))[0])


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tagger = Tagger()

    def forward(self, words: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.tagger(words).flatten(0, 1), tags.flatten())


def evaluate(tagger: Tagger, words: torch.Tensor) -> float:
    before = tagger.training
    tagger.eval()
    with torch.no_grad():
        score = (tagger(words).argmax(-1) == words % 4).float().mean().item()
    tagger.training = before
    return score


model = Wrapped()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
held_out = torch.randint(0, 50, (64, 12))
for step in range(1, 321):
    words = torch.randint(0, 50, (16, 12))
    loss = model(words, words % 4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 80 == 0 and step > 200:
        print(step, evaluate(model.tagger, held_out))
