"""Reading of strokes with CTC."""
import torch
from torch import nn

torch.manual_seed(17)
C, T = 7, 24
codes = torch.randn(C, 6)


def sample(n):
    xs, ys, lens = torch.zeros(n, T, 6), [], []
    for i in range(n):
        k = int(torch.randint(2, 6, ()))
        word = torch.randint(1, C, (k,))
        xs[i] = torch.randn(T, 6) * 0.2
        for j, c in enumerate(word.tolist()):
            xs[i, 4 * j:4 * j + 3] += codes[c]
        ys.append(word)
        lens.append(k)
    return xs, torch.cat(ys), torch.tensor(lens)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 32, batch_first=True, bidirectional=True)
        self.out = nn.Linear(64, C)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).transpose(0, 1)


model, ctc = Reader(), nn.CTCLoss(zero_infinity=True)
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    x, y, n = sample(16)
    loss = ctc(model(x), y, torch.full((16,), T), n)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    opt.step()
    if step % 20 == 19:
        print(step, loss.item())
