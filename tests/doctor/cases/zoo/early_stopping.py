import copy
import os
import tempfile

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def run(model, loader, criterion, optimizer=None):
    model.train(optimizer is not None)
    total = count = 0
    with torch.set_grad_enabled(optimizer is not None):
        for x, y in loader:
            loss = criterion(model(x), y)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * len(x)
            count += len(x)
    return total / count


def main():
    torch.manual_seed(36)
    x = torch.randn(640, 8)
    y = x[:, :1] * x[:, 1:2]
    train_loader = DataLoader(TensorDataset(x[:480], y[:480]), batch_size=32, shuffle=True)
    valid_loader = DataLoader(TensorDataset(x[480:], y[480:]), batch_size=32)
    model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    best, best_state, patience = float("inf"), None, 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "best.pt")
        for epoch in range(6):
            train_loss = run(model, train_loader, criterion, optimizer)
            valid_loss = run(model, valid_loader, criterion)
            scheduler.step(valid_loss)
            print(f"{epoch} {train_loss:.4f} {valid_loss:.4f}")
            if valid_loss < best:
                best, patience = valid_loss, 0
                best_state = copy.deepcopy(model.state_dict())
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, path)
            else:
                patience += 1
                if patience == 3:
                    break
        model.load_state_dict(best_state)
        model.load_state_dict(torch.load(path)["model"])
    print("best", run(model, valid_loader, criterion))


main()
