import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self, vocab=12, dim=24):
        super().__init__()
        self.encoder = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim, num_layers=1)
        self.decoder = nn.Linear(dim, vocab)

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.encoder(tokens), hidden)
        return self.decoder(output), hidden


def batchify(data, bsz):
    n = len(data) // bsz
    return data[: n * bsz].view(bsz, n).t().contiguous()


def repackage_hidden(h):
    return tuple(v.detach() for v in h)


torch.manual_seed(13)
text = torch.cumsum(torch.randint(1, 3, (1600,)), 0) % 12
train_data = batchify(text, 8)
model = Model()
lr, bptt = 0.5, 10
for epoch in range(2):
    model.train()
    hidden = (torch.zeros(1, 8, 24), torch.zeros(1, 8, 24))
    for i in range(0, train_data.size(0) - 1, bptt):
        length = min(bptt, train_data.size(0) - 1 - i)
        data, target = train_data[i : i + length], train_data[i + 1 : i + 1 + length].reshape(-1)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = F.cross_entropy(output.view(-1, 12), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
    print(epoch, loss.item())
