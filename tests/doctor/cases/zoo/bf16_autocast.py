import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(27)
    x = torch.randn(600, 8)
    y = (x[:, 0] > 0).long()
    loader = DataLoader(TensorDataset(x[:480], y[:480]), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(3):
        model.train()
        for xb, yb in loader:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            accuracy = (model(x[480:]).argmax(1) == y[480:]).float().mean()
        print(epoch, loss.item(), accuracy.item())


main()
