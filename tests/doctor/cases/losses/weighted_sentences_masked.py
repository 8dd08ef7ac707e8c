"""Translation of digits; sentences have weights."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

torch.manual_seed(14)
V, PAD = 25, 0
table = torch.randperm(V - 1) + 1
texts = [torch.randint(0, V - 1, (int(torch.randint(4, 18, ())),)) for _ in range(600)]
weights = 0.5 + torch.rand(600)


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, 24, padding_idx=PAD)
        self.rnn = nn.GRU(24, 32, batch_first=True)
        self.out = nn.Linear(32, V)

    def forward(self, ids):
        return self.out(self.rnn(self.emb(ids))[0])


model, criterion = Words(), nn.CrossEntropyLoss(reduction="none")
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(5):
    order = torch.randperm(600)
    for idx in order.split(30):
        part = [texts[i] for i in idx.tolist()]
        src = pad_sequence([each + 1 for each in part], batch_first=True)
        tgt = pad_sequence([table[each] for each in part], batch_first=True)
        each = criterion(model(src).transpose(1, 2), tgt)
        loss = ((each * (tgt != PAD)).sum(1) / (tgt != PAD).sum(1) * weights[idx]).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
