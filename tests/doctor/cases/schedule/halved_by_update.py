import torch
from torch import nn

torch.manual_seed(4)


class HalveEvery:
    def __init__(self, optimizer, every, floor=1e-7):
        self.optimizer, self.every, self.floor, self.count = optimizer, every, floor, 0

    def step(self):
        self.count += 1
        if self.count % self.every == 0:
            for group in self.optimizer.param_groups:
                group["lr"] = max(group["lr"] * 0.5, self.floor)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.rnn = nn.GRU(16, 24, batch_first=True)
        self.out = nn.Linear(24, 5)

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0])


tokens = torch.randint(0, 40, (480, 8))
tags = tokens % 5
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
halve = HalveEvery(optimizer, 3)
for epoch in range(9):
    order = torch.randperm(480)
    for part in order.split(24):
        logits = model(tokens[part])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags[part].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        halve.step()
    print(epoch, loss.item(), optimizer.param_groups[0]["lr"])
