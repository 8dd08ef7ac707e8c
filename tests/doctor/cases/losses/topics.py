import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Documents(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.topic = torch.randint(0, 4, (n,), generator=g)
        rate = torch.full((4, 30), 0.3)
        for k in range(4):
            rate[k, k * 7 : k * 7 + 7] = 2.0
        self.counts = torch.poisson(rate[self.topic], generator=g)

    def __len__(self):
        return len(self.topic)

    def __getitem__(self, i):
        return self.counts[i], self.topic[i]


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(30, 4)

    def forward(self, counts):
        return F.softmax(self.linear(counts), dim=1)


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = [(model(c).argmax(1) == t).float().sum() for c, t in loader]
    return torch.stack(hits).sum().item() / len(loader.dataset)


torch.manual_seed(0)
train_loader = DataLoader(Documents(400, 1), batch_size=25, shuffle=True)
valid_loader = DataLoader(Documents(100, 2), batch_size=50)
model = BagOfWords()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    model.train()
    for counts, topic in train_loader:
        loss = F.nll_loss(model(counts), topic)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), accuracy(model, valid_loader))
