import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
V = 20


class S2S(nn.Module):
    def __init__(s):
        super().__init__()
        s.e = nn.Embedding(V, 32)
        s.t = nn.Transformer(32, 4, 1, 1, 64, batch_first=True)
        s.o = nn.Linear(32, V)

    def forward(s, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1])
        return s.o(s.t(s.e(src), s.e(tgt), tgt_mask=mask))


m = S2S()
o = torch.optim.Adam(m.parameters(), 1e-3)
for i in range(30):
    seq = torch.randint(3, V, (8, 10))
    seq[:, 0] = 1
    logits = m(seq, seq[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, V), seq[:, 1:].reshape(-1))
    o.zero_grad()
    loss.backward()
    o.step()
