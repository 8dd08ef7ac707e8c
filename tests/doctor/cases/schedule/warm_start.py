import io

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(28)
inputs = torch.randn(180, 9)
targets = inputs[:, :3].argmax(1)


class Experiment:
    def __init__(self, lr):
        self.net = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 3))
        self.opt = optim.SGD(self.net.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)

    def dump(self):
        buffer = io.BytesIO()
        torch.save([self.net.state_dict(), self.opt.state_dict()], buffer)
        return buffer.getvalue()

    def restore(self, blob):
        net, opt = torch.load(io.BytesIO(blob))
        self.net.load_state_dict(net)
        self.opt.load_state_dict(opt)
        return self

    def fit(self, epochs):
        loader = DataLoader(TensorDataset(inputs, targets), batch_size=18, shuffle=True)
        for _ in range(epochs):
            for x, y in loader:
                self.opt.zero_grad()
                loss = F.cross_entropy(self.net(x), y)
                loss.backward()
                self.opt.step()
        return loss.item()


first = Experiment(lr=0.1)
print(first.fit(3))
second = Experiment(lr=0.01).restore(first.dump())
print(second.fit(3))
