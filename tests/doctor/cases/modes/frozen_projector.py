import torch
import torch.nn as nn
import torch.nn.utils as U


class Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = U.spectral_norm(nn.Conv2d(1, 6, 3))
        self.out = U.spectral_norm(nn.Linear(6, 8))

    def forward(self, x):
        return self.out(torch.relu(self.conv(x)).mean((2, 3)))


def main():
    torch.manual_seed(29)
    projector = Projector().eval()
    projector.requires_grad_(False)
    head = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    opt = torch.optim.SGD(head.parameters(), lr=0.05, momentum=0.9)
    y = torch.randint(0, 2, (200,))
    x = torch.randn(200, 1, 7, 7) * (0.5 + y.float().view(-1, 1, 1, 1))
    for epoch in range(4):
        head.train()
        for rows in torch.randperm(160).split(16):
            with torch.no_grad():
                z = projector(x[rows])
            opt.zero_grad()
            loss = nn.functional.cross_entropy(head(z), y[rows])
            loss.backward()
            opt.step()
        head.eval()
        with torch.no_grad():
            print(epoch, (head(projector(x[160:])).argmax(1) == y[160:]).float().mean().item())


if __name__ == "__main__":
    main()
