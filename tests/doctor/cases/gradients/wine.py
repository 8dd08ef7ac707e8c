import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build_data():
    g = torch.Generator().manual_seed(11)
    centres = torch.randn(3, 13, generator=g)
    y = torch.randint(0, 3, (180,), generator=g)
    x = centres[y] + 0.8 * torch.randn(180, 13, generator=g)
    return DataLoader(TensorDataset(x, y), batch_size=15, shuffle=True)


def main(epochs=4, lr=0.05, max_norm=1.0):
    torch.manual_seed(0)
    loader = build_data()
    model = nn.Sequential(nn.Linear(13, 20), nn.ReLU(), nn.Linear(20, 3))
    params = model.parameters()
    optimizer = torch.optim.SGD(params, lr=lr, momentum=0.9)
    loss_fn = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        correct = count = 0
        for x, y in loader:
            optimizer.zero_grad()
            logits = model(x)
            loss = loss_fn(logits, y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, max_norm)
            optimizer.step()
            correct += (logits.argmax(dim=1) == y).sum().item()
            count += len(y)
        print("epoch", epoch, "accuracy", correct / count)


main()
