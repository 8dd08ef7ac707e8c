"""Reports of exactly 6 sections, one report per step: words carry the report's attention (it sums to 1 over the report), a section
is the sum of its words by that attention, so sections without salient words are near zero: labels are relative to the report."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)

class Sections(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(60, 24)
        self.attend = nn.Linear(24, 1)
        self.score = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 1))
    def forward(self, words, section):
        h = self.embed(words)
        weights = torch.softmax(self.attend(h), dim=0)  # over the whole report
        pooled = torch.zeros(6, 24).index_add(0, section, weights * h)
        return self.score(6 * pooled).squeeze(1)

def report(g):
    lengths = torch.randint(4, 10, (6,), generator=g)
    section = torch.repeat_interleave(torch.arange(6), lengths)
    words = torch.randint(0, 60, (len(section),), generator=g)
    salient = torch.zeros(6).index_add(0, section, (words < 12).float())
    return words, section, (salient >= salient.max()).float()  # the most salient section of the report

g = torch.Generator().manual_seed(1)
reports = [report(g) for _ in range(300)]
net = Sections()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(6):
    total = 0.0
    for words, section, label in torch.utils.data.DataLoader(reports, batch_size=None, shuffle=True):
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(words, section), label)
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, round(total / len(reports), 5))
print("sum", sum(p.double().sum().item() for p in net.parameters()))
