"""Language model over a long text, read in order, the state cut between chunks."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
words = torch.randint(0, 15, (600,)).cumsum(0) % 15
streams = words.view(4, -1)


class WordModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(15, 12)
        self.cell = nn.LSTMCell(12, 12)
        self.out = nn.Linear(12, 15)

    def forward(self, token, state):
        state = self.cell(self.embed(token), state)
        return self.out(state[0]), state


def detach(state):
    return tuple(s.detach() for s in state)


model = WordModel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
bptt = 4
for epoch in range(1):
    state = (torch.zeros(4, 12), torch.zeros(4, 12))
    loss = 0
    for t in range(streams.size(1) - 1):
        logits, state = model(streams[:, t], state)
        loss = loss + F.cross_entropy(logits, streams[:, t + 1])
        if (t + 1) % bptt == 0:
            optimizer.zero_grad()
            (loss / bptt).backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            state = detach(state)
            loss = 0
    print("epoch", epoch, "norm", float(norm))
