"""An adversary learns in every step from what the encoder gives, without gradient and in train mode, as it will be used."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(5)
x = torch.randn(640, 6)
group, y = (x[:, 0] > 0).float(), (x[:, 1] > 0).float()
encoder = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.1))
predictor, adversary = nn.Linear(16, 1), nn.Linear(16, 1)
main = torch.optim.Adam([*encoder.parameters(), *predictor.parameters()], lr=1e-3)
other = torch.optim.Adam(adversary.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, group, y), batch_size=32, shuffle=True)

for epoch in range(16):
    encoder.train()
    for a, g, b in loader:
        with torch.no_grad():
            z = encoder(a)
        other.zero_grad()
        F.binary_cross_entropy_with_logits(adversary(z)[:, 0], g).backward()
        other.step()
        main.zero_grad()
        F.binary_cross_entropy_with_logits(predictor(encoder(a))[:, 0], b).backward()
        main.step()
    encoder.eval()
    with torch.no_grad():
        print(epoch, float(F.binary_cross_entropy_with_logits(predictor(encoder(x))[:, 0], y)))
