"""Tags of padded sentences; cross-entropy by one-hot vectors."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence


def sentences(n):
    words = [torch.randint(1, 40, (int(torch.randint(4, 13, ())),)) for _ in range(n)]
    return words, [1 + row % 4 for row in words]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 16, padding_idx=0)
        self.mix = nn.Conv1d(16, 16, 3, padding=1)
        self.tags = nn.Linear(16, 5)

    def forward(self, x):
        return self.tags(torch.relu(self.mix(self.words(x).transpose(1, 2))).transpose(1, 2))


torch.manual_seed(13)
words, tags = sentences(256)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(5):
    for pick in torch.randperm(256).split(16):
        x = pad_sequence([words[i] for i in pick.tolist()], batch_first=True)
        y = pad_sequence([tags[i] for i in pick.tolist()], batch_first=True)
        log_p = F.log_softmax(model(x), dim=-1)
        loss = -(F.one_hot(y, 5) * log_p).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
