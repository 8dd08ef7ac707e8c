"""Tags of words; 0 is the tag for nothing special, and the filler."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
import torch.nn.functional as F

torch.manual_seed(12)
V, TAGS = 80, 4
rule = torch.randint(0, TAGS, (V,))
rule[torch.rand(V) < 0.4] = 0
texts = [torch.randint(1, V, (int(torch.randint(5, 22, ())),)) for _ in range(700)]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, 24, padding_idx=0)
        self.rnn = nn.GRU(24, 24, batch_first=True, bidirectional=True)
        self.out = nn.Linear(48, TAGS)

    def forward(self, ids):
        return self.out(self.rnn(self.emb(ids))[0])


model = Tagger()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(5):
    order = torch.randperm(700).tolist()
    for lo in range(0, 700, 35):
        part = [texts[i] for i in order[lo:lo + 35]]
        ids = pad_sequence(part, batch_first=True)
        tags = pad_sequence([rule[text] for text in part], batch_first=True, padding_value=-100)
        loss = F.cross_entropy(model(ids).transpose(1, 2), tags)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
