# kind: inside frameworks
# expect: nothing
# like: averaged-batchnorm-stale
# why: Ignite's EMAHandler averages the weights; before each evaluation the averaged network's BatchNorm statistics are
#      recomputed over the training data with update_bn (train mode, no grad), then it is evaluated in eval mode.
import torch
import torch.nn.functional as F
from ignite.engine import Engine, Events
from ignite.handlers import EMAHandler
from ignite.metrics import Loss, Metric
from torch import nn
from torch.optim.swa_utils import update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def cells(n, g, size=24):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    img = 0.6 * torch.randn(n, 1, size, size, generator=g)
    mask = torch.zeros(n, 1, size, size)
    for i in range(n):
        for _ in range(int(torch.randint(1, 4, (1,), generator=g))):
            cy, cx = torch.randint(4, size - 4, (2,), generator=g)
            r = 2 + 3 * torch.rand(1, generator=g)
            mask[i, 0][(yy - cy) ** 2 + (xx - cx) ** 2 <= r ** 2] = 1.0
    return img + 1.2 * mask, mask


def block(a, b, stride=1):
    return nn.Sequential(nn.Conv2d(a, b, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())


class MiniUNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.enc, self.down = block(1, c), block(c, 2 * c, stride=2)
        self.mid, self.dec = block(2 * c, 2 * c), block(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        e = self.enc(x)
        m = self.mid(self.down(e))
        return self.out(self.dec(torch.cat([e, F.interpolate(m, scale_factor=2.0)], dim=1)))


class Dice(Metric):
    def reset(self):
        self.overlap = self.area = 0.0

    def update(self, output):
        logits, mask = output
        guess = (logits > 0).float()
        self.overlap += 2 * (guess * mask).sum().item()
        self.area += (guess.sum() + mask.sum()).item()

    def compute(self):
        return self.overlap / max(self.area, 1.0)


def segmentation_loss(logits, mask):
    p = torch.sigmoid(logits)
    inter = (p * mask).sum(dim=(1, 2, 3))
    soft_dice = 1 - (2 * inter + 1) / (p.sum(dim=(1, 2, 3)) + mask.sum(dim=(1, 2, 3)) + 1)
    return F.binary_cross_entropy_with_logits(logits, mask) + soft_dice.mean()


def main():
    torch.manual_seed(19)
    g = torch.Generator().manual_seed(4)
    x, y = cells(768, g)
    xv, yv = cells(192, g)
    mean, std = x.mean(), x.std()
    train_loader = DataLoader(TensorDataset((x - mean) / std, y), 32, shuffle=True)
    valid_loader = DataLoader(TensorDataset((xv - mean) / std, yv), 64)

    model = MiniUNet()
    optimizer = torch.optim.NAdam(model.parameters(), lr=3e-3)

    def fit_batch(engine, batch):
        model.train()
        img, mask = batch
        loss = segmentation_loss(model(img), mask)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    trainer = Engine(fit_batch)
    ema = EMAHandler(model, momentum=0.05)
    ema.attach(trainer, name="ema_momentum", event=Events.ITERATION_COMPLETED)

    @torch.no_grad()
    def predict_batch(engine, batch):
        ema.ema_model.eval()
        img, mask = batch
        return ema.ema_model(img), mask

    judge = Engine(predict_batch)
    Dice().attach(judge, "dice")
    Loss(segmentation_loss).attach(judge, "loss")

    @trainer.on(Events.EPOCH_COMPLETED)
    def report(engine):
        update_bn(train_loader, ema.ema_model)
        judge.run(valid_loader)
        m = judge.state.metrics
        print(f"epoch {engine.state.epoch}: last loss {engine.state.output:.3f} "
              f"ema valid loss {m['loss']:.3f} dice {m['dice']:.3f}")

    trainer.run(train_loader, max_epochs=7)


if __name__ == "__main__":
    main()
