import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(123)


class Points(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return self.x.shape[0]

    def __getitem__(self, index):
        return {"features": self.x[index], "label": self.y[index]}


centers = torch.randn(4, 10) * 2
labels = torch.randint(0, 4, (400,))
features = centers[labels] + torch.randn(400, 10)
perm = torch.randperm(400)
features, labels = features[perm], labels[perm]

train_dl = DataLoader(Points(features[:320], labels[:320]), batch_size=40, shuffle=True)
val_dl = DataLoader(Points(features[300:], labels[300:]), batch_size=50)

net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for epoch in range(5):
    net.train()
    for batch in train_dl:
        opt.zero_grad()
        F.cross_entropy(net(batch["features"]), batch["label"]).backward()
        opt.step()
    net.eval()
    correct = count = 0
    with torch.no_grad():
        for batch in val_dl:
            correct += (net(batch["features"]).argmax(-1) == batch["label"]).sum().item()
            count += len(batch["label"])
    print("epoch", epoch, "val acc", correct / count)
