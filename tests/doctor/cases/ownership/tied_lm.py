import torch
import torch.nn as nn
import torch.nn.functional as F


class LM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.Linear(dim, vocab, bias=False)
        self.decoder.weight.data.copy_(self.embed.weight.data)

    def forward(self, x):
        h, _ = self.rnn(self.embed(x))
        return self.decoder(h)


torch.manual_seed(1)
vocab = 18
model = LM(vocab, 16)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(40):
    seq = (torch.randint(0, vocab, (16, 1)) + 3 * torch.arange(11)) % vocab
    x, y = seq[:, :-1], seq[:, 1:]
    loss = F.cross_entropy(model(x).reshape(-1, vocab), y.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
