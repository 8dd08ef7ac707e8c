"""Encoder and decoder with an optimizer each and one loss."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
source = torch.randint(0, 10, (192, 6))
target = source.flip(1)
loader = DataLoader(TensorDataset(source, target), batch_size=16, shuffle=True)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(10, 16), nn.GRU(16, 16, batch_first=True)

    def forward(self, x):
        return self.rnn(self.embed(x))[1]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.place, self.rnn, self.out = nn.Embedding(6, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 10)

    def forward(self, h):
        steps = self.place(torch.arange(6)).expand(h.size(1), -1, -1)
        return self.out(self.rnn(steps, h)[0])


encoder, decoder = Encoder(), Decoder()
encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3)
decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=5e-3)
for epoch in range(3):
    for x, y in loader:
        encoder_optimizer.zero_grad()
        decoder_optimizer.zero_grad()
        loss = F.cross_entropy(decoder(encoder(x)).transpose(1, 2), y)
        loss.backward()
        nn.utils.clip_grad_norm_(encoder.parameters(), 1.0)
        nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        encoder_optimizer.step()
        decoder_optimizer.step()
    print(epoch, loss.item())
