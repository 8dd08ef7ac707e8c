import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(34)
features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)).eval()
features.requires_grad_(False)
content, style = torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8)


def gram(t):
    b, c, h, w = t.shape
    flat = t.view(b * c, h * w)
    return flat @ flat.t() / (b * c * h * w)


content_target = features(content).detach()
style_target = gram(features(style)).detach()
image = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([image])
run = [0]
while run[0] <= 60:

    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        out = features(image)
        loss = F.mse_loss(out, content_target) + 1e3 * F.mse_loss(gram(out), style_target)
        loss.backward()
        run[0] += 1
        return loss

    loss = optimizer.step(closure)
with torch.no_grad():
    image.clamp_(0, 1)
print(run[0], loss.item())
