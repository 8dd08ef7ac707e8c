"""A prefix LM: the prefix sees all of itself, and only what follows it is scored."""

import torch
from torch import nn

torch.manual_seed(0)
WORDS, PREFIX, LENGTH = 30, 14, 24


class PrefixLM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, 32)
        self.places = nn.Parameter(0.1 * torch.randn(LENGTH, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, WORDS)
        mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)
        mask[:PREFIX, :PREFIX] = False
        self.register_buffer("mask", mask)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.table(words) + self.places, src_mask=self.mask))


model = PrefixLM()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(60):
    text = (torch.randint(0, WORDS, (16, 1)) + torch.randint(1, 4, (16, LENGTH + 1)).cumsum(1)) % WORDS
    scores = model(text[:, :-1])[:, PREFIX:]
    loss = nn.functional.cross_entropy(scores.reshape(-1, WORDS), text[:, PREFIX + 1 :].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
