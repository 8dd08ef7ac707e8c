import io

import torch
import torch.nn as nn
import torch.nn.functional as F


class Old(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(2, 8, 3)
        self.conv2 = nn.Conv1d(8, 8, 3)
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(F.relu(self.conv2(F.relu(self.conv1(x)))).mean(-1))


class New(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(2, 8, 3), nn.ReLU(), nn.Conv1d(8, 8, 3), nn.ReLU())
        self.classifier = nn.Linear(8, 2)

    def forward(self, x):
        return self.classifier(self.features(x).mean(-1))


def train(model, x, y, steps):
    model.train()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(0, len(x), (16,))
        loss = F.cross_entropy(model(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def load_pretrained(model, blob):
    model_dict = model.state_dict()
    pretrained_dict = {k: v for k, v in torch.load(blob).items() if k in model_dict}
    model_dict.update(pretrained_dict)
    model.load_state_dict(model_dict)


torch.manual_seed(6)
y = torch.randint(0, 2, (160,))
x = torch.randn(160, 2, 12) + y.view(-1, 1, 1)
old = Old()
print(train(old, x, y, 30))
blob = io.BytesIO()
torch.save(old.state_dict(), blob)
blob.seek(0)
new = New()
load_pretrained(new, blob)
print(train(new, x, y, 30))
