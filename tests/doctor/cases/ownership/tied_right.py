import torch
import torch.nn as nn
import torch.nn.functional as F


class LM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, x):
        return self.head(self.gru(self.wte(x))[0])


torch.manual_seed(0)
model = LM(15, 16)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _step in range(40):
    seq = (torch.randint(0, 15, (16, 1)) + 2 * torch.arange(9)) % 15
    loss = F.cross_entropy(model(seq[:, :-1]).transpose(1, 2), seq[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
