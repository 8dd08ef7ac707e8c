# pretraining, a probe on features without gradient, and fine-tuning with it: each phase has its own optimizer
import torch
from torch import nn

torch.manual_seed(9)
encoder = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 6))
decoder, head = nn.Linear(6, 10), nn.Linear(6, 3)
mixing = torch.randn(10, 3)


def phase(optimizer, loss_of, steps):
    for _ in range(steps):
        loss = loss_of(torch.randn(32, 10))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def label_loss(x, tune):
    with torch.set_grad_enabled(tune):
        h = encoder(x)
    return nn.functional.cross_entropy(head(h), (x @ mixing).argmax(1))


both = [*encoder.parameters(), *decoder.parameters()]
print(phase(torch.optim.Adam(both, lr=1e-2), lambda x: nn.functional.mse_loss(decoder(encoder(x)), x), 60))
print(phase(torch.optim.Adam(head.parameters(), lr=1e-2), lambda x: label_loss(x, False), 60))
print(phase(torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-3), lambda x: label_loss(x, True), 60))
