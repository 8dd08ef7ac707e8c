import torch
import torch.nn.functional as F
from torch import nn


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 8))
        self.text = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 8))
        self.logit_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, image, text):
        a = F.normalize(self.image(image), dim=-1)
        b = F.normalize(self.text(text), dim=-1)
        return self.logit_scale.exp() * a @ b.t()


def pairs(n):
    shared = torch.randn(n, 4)
    return shared @ to_image + 0.1 * torch.randn(n, 12), shared @ to_text + 0.1 * torch.randn(n, 9)


torch.manual_seed(19)
to_image, to_text = torch.randn(4, 12), torch.randn(4, 9)
model = TwoTowers()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(40):
    similarity = model(*pairs(24))
    target = torch.arange(24)
    by_row = F.nll_loss(F.log_softmax(similarity, dim=1), target)
    by_column = -F.log_softmax(similarity, dim=0).diagonal().mean()
    loss = (by_row + by_column) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
