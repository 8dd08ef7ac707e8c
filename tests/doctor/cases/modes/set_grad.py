import copy

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def train_model(model, dataloaders, criterion, optimizer, num_epochs=4):
    best, best_acc = copy.deepcopy(model.state_dict()), 0.0
    for epoch in range(num_epochs):
        for phase in ["train", "val"]:
            model.train() if phase == "train" else model.eval()
            corrects = 0
            for inputs, labels in dataloaders[phase]:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                corrects += (outputs.argmax(1) == labels).sum().item()
            acc = corrects / len(dataloaders[phase].dataset)
            print(epoch, phase, acc)
            if phase == "val" and acc > best_acc:
                best, best_acc = copy.deepcopy(model.state_dict()), acc
    model.load_state_dict(best)
    return model


torch.manual_seed(13)
x = torch.randn(300, 5)
y = (x.sum(1) > 0).long()
loaders = {
    "train": DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True),
    "val": DataLoader(TensorDataset(x[240:], y[240:]), batch_size=30),
}
net = nn.Sequential(nn.Linear(5, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Dropout(0.3), nn.Linear(20, 2))
train_model(net, loaders, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.05, momentum=0.9))
