# kind: without a DataLoader
# expect: evaluated-with-grad
# why: predict() is decorated with no_grad but hands back a generator expression; the forwards happen later, in the
#      caller's loop, where gradients are on again.
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
SEED, TILE = 42, 24


def field(rng, size=96):
    """A picture of blobs with its mask."""
    rows, cols = np.mgrid[0:size, 0:size]
    mask = np.zeros((size, size), bool)
    for _ in range(14):
        r, c = rng.uniform(0, size, 2)
        a, b = rng.uniform(4, 11, 2)
        mask |= ((rows - r) / a) ** 2 + ((cols - c) / b) ** 2 < 1
    shade = np.sin(cols / rng.uniform(6, 14)) * 0.4
    picture = mask * 1.0 + shade + rng.normal(0, 0.6, mask.shape)
    return picture.astype(np.float32), mask.astype(np.float32)


class Net(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
        self.down = block(1, ch)
        self.deep = nn.Sequential(nn.MaxPool2d(2), block(ch, 2 * ch), block(2 * ch, 2 * ch))
        self.up = nn.ConvTranspose2d(2 * ch, ch, 2, stride=2, bias=False)
        self.last = nn.Sequential(block(2 * ch, ch), nn.Conv2d(ch, 1, 1))

    def forward(self, x):
        skip = self.down(x)
        return self.last(torch.cat([skip, self.up(self.deep(skip))], 1))


def crops(pictures, masks, count, batch, rng):
    """Random windows, flipped at random."""
    limit = pictures.shape[-1] - TILE + 1
    for _ in range(count):
        xs, ys = [], []
        for k in rng.integers(0, len(pictures), batch):
            r, c = rng.integers(0, limit, 2)
            x, y = pictures[k, r:r + TILE, c:c + TILE], masks[k, r:r + TILE, c:c + TILE]
            if rng.random() < 0.5:
                x, y = x[:, ::-1], y[:, ::-1]
            xs.append(x)
            ys.append(y)
        yield torch.from_numpy(np.stack(xs))[:, None], torch.from_numpy(np.stack(ys))[:, None]


def grid_tiles(image):
    t = torch.from_numpy(image)
    t = t.unfold(0, TILE, TILE).unfold(1, TILE, TILE)
    return t.reshape(-1, 1, TILE, TILE)


@torch.no_grad()
def predict(model, pictures):
    model.eval()
    return (model(grid_tiles(p)) for p in pictures)


def dice_parts(logits, mask):
    hard = (logits > 0).float()
    return 2 * (hard * mask).sum().item(), (hard.sum() + mask.sum()).item()


def assess(model, pictures, masks):
    total, top, bottom = 0.0, 0.0, 0.0
    for logits, mask in zip(predict(model, pictures), masks):
        truth = grid_tiles(mask)
        total += F.binary_cross_entropy_with_logits(logits, truth).item()
        a, b = dice_parts(logits, truth)
        top, bottom = top + a, bottom + b
    return total / len(pictures), top / bottom


torch.manual_seed(SEED)
rng = np.random.default_rng(SEED)
pictures, masks = map(np.stack, zip(*(field(rng) for _ in range(26))))
train_p, train_m, valid_p, valid_m = pictures[:20], masks[:20], pictures[20:], masks[20:]
mu, sd = train_p.mean(), train_p.std()
train_p, valid_p = (train_p - mu) / sd, (valid_p - mu) / sd

net = Net()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(7):
    net.train()
    losses = []
    for x, y in crops(train_p, train_m, 30, 12, rng):
        opt.zero_grad()
        loss = F.binary_cross_entropy_with_logits(net(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    vloss, dice = assess(net, valid_p, valid_m)
    print(f"epoch {epoch} train {np.mean(losses):.4f} valid {vloss:.4f} dice {dice:.3f}")
