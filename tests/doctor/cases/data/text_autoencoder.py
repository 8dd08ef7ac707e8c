import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
VOCAB, LENGTH = 12, 6


class AutoEncoder(nn.Module):
    def __init__(self, dim=24, code=8):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.enc = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.code = nn.Linear(2 * dim, code)
        self.dec = nn.Linear(code, LENGTH * VOCAB)

    def forward(self, ids):
        _, h = self.enc(self.emb(ids))
        z = torch.tanh(self.code(torch.cat([h[0], h[1]], dim=1)))
        return self.dec(z).view(-1, LENGTH, VOCAB)


data = torch.randint(0, VOCAB, (160, LENGTH))
model = AutoEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    for part in torch.randperm(160).split(16):
        ids = data[part]
        loss = F.cross_entropy(model(ids).transpose(1, 2), ids)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
