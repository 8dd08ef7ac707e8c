"""Extractive summary: one document per step; words know their sentence; each sentence is scored with the document's context,
an attention over all words of that document."""
import torch
from torch import nn
torch.manual_seed(0); torch.set_num_threads(1)

class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(60, 24)
        self.attend = nn.Linear(24, 1)
        self.score = nn.Sequential(nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 1))
    def forward(self, words, sentence):
        h = self.embed(words)
        weights = torch.softmax(self.attend(h), dim=0)  # over the whole document
        context = (weights * h).sum(0)
        count = int(sentence[-1]) + 1
        pooled = torch.zeros(count, h.shape[1]).index_add(0, sentence, h)
        pooled = pooled / torch.bincount(sentence, minlength=count)[:, None]
        return self.score(torch.cat([pooled, context.expand(count, -1)], 1)).squeeze(1)

def document(g):
    lengths = torch.randint(4, 10, (int(torch.randint(4, 9, (1,), generator=g)),), generator=g)
    sentence = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    topic = int(torch.randint(0, 6, (1,), generator=g))
    words = torch.randint(0, 60, (len(sentence),), generator=g)
    mine = torch.rand(len(sentence), generator=g) < 0.4
    words = torch.where(mine, words % 10 + 10 * topic, words)
    share = torch.zeros(len(lengths)).index_add(0, sentence, (words // 10 == topic).float()) / lengths
    return words, sentence, (share > share.mean()).float()  # above the document's own mean

g = torch.Generator().manual_seed(1)
docs = [document(g) for _ in range(300)]
net = Scorer()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(6):
    total = 0.0
    for words, sentence, label in torch.utils.data.DataLoader(docs, batch_size=None, shuffle=True):
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(words, sentence), label)
        loss.backward()
        opt.step()
        total += loss.item()
    print(epoch, round(total / len(docs), 5))
print("sum", sum(p.double().sum().item() for p in net.parameters()))
