import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(25, 32)
        self.fc21, self.fc22 = nn.Linear(32, 3), nn.Linear(32, 3)
        self.fc3, self.fc4 = nn.Linear(3, 32), nn.Linear(32, 25)

    def encode(self, x):
        h = F.relu(self.fc1(x))
        return self.fc21(h), self.fc22(h)

    def decode(self, z):
        return self.fc4(F.relu(self.fc3(z)))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 25))
        std = torch.exp(0.5 * logvar)
        return self.decode(mu + torch.randn_like(std) * std), mu, logvar


def elbo(recon, x, mu, logvar):
    mse = F.mse_loss(recon, x.view(-1, 25), reduction="sum")
    return mse - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


torch.manual_seed(1)
x = torch.randn(600, 3) @ torch.randn(3, 25)
train_loader = DataLoader(TensorDataset(x[:480].view(-1, 5, 5)), batch_size=32, shuffle=True)
test_loader = DataLoader(TensorDataset(x[480:].view(-1, 5, 5)), batch_size=60)
model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(3):
    model.train()
    for (data,) in train_loader:
        optimizer.zero_grad()
        loss = elbo(*[(out := model(data))[0], data, out[1], out[2]])
        loss.backward()
        optimizer.step()
    model.eval()
    test_loss = 0.0
    with torch.no_grad():
        for (data,) in test_loader:
            recon, mu, logvar = model(data)
            test_loss += elbo(recon, data, mu, logvar).item()
        sample = model.decode(torch.randn(8, 3))
    print(epoch, test_loss / len(test_loader.dataset), sample.shape)
