"""One criterion for words and for pairs: the padding of the words is class 0 of the pairs, and is left out there as well."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
WORDS = 16
first = torch.randint(1, WORDS, (400, 1))
follows = torch.randint(0, 2, (400,))
ids = torch.where(follows[:, None] == 1, (first + torch.arange(6) - 1) % (WORDS - 1) + 1, torch.randint(1, WORDS, (400, 6)))
hidden = torch.rand(ids.shape) < 0.25
loader = DataLoader(TensorDataset(ids.masked_fill(hidden, 0), ids * hidden, follows), batch_size=40, shuffle=True)


class Net(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(WORDS, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.word, self.pair = nn.Linear(2 * dim, WORDS), nn.Linear(2 * dim, 2)

    def forward(self, ids):
        h, _ = self.mix(self.embed(ids))
        return self.word(h).log_softmax(-1), self.pair(h.mean(1)).log_softmax(-1)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
criterion = nn.NLLLoss(ignore_index=0)
for epoch in range(4):
    for masked, words, pairs in loader:
        word, pair = net(masked)
        pair_loss = criterion(pair, pairs)
        loss = criterion(word.transpose(1, 2), words) + pair_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 3), round(pair_loss.item(), 4))
