# kind: indirection
# expect: nothing
# why: might be accused of leaf-written-in-place, averaged-batchnorm-stale, ddp-bypassed and best-weights-aliased; the shadow averages parameters and statistics alike, is swapped in and out by copy_ for evaluation only, training goes through DDP, and the best shadow is cloned.
"""Image classifier under DDP (one process) with hand-written averaged weights."""
import contextlib
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

EPOCHS, BATCH, CLASSES, SIZE = 8, 64, 6, 16


def make_images(n, patterns, gen):
    labels = torch.randint(0, len(patterns), (n,), generator=gen)
    shift = torch.randint(-2, 3, (n, 2), generator=gen)
    images = torch.stack([patterns[k].roll((int(s[0]), int(s[1])), (1, 2)) for k, s in zip(labels.tolist(), shift)])
    return images + 1.2 * torch.randn(images.shape, generator=gen), labels


class ShadowWeights:
    """Exponential average of everything in the state dict, statistics included."""

    def __init__(self, module, decay):
        self.module, self.decay, self.updates = module, decay, 0
        self.values = self.copy_of(module.state_dict())

    @staticmethod
    def copy_of(state):
        return {name: value.detach().clone() for name, value in state.items()}

    @torch.no_grad()
    def update(self):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for name, value in self.module.state_dict().items():
            if value.dtype.is_floating_point:
                self.values[name].mul_(decay).add_(value, alpha=1 - decay)
            else:
                self.values[name].copy_(value)

    @torch.no_grad()
    def write(self, values):
        for name, value in self.module.state_dict().items():
            value.copy_(values[name])

    @contextlib.contextmanager
    def applied(self):
        live = self.copy_of(self.module.state_dict())
        self.write(self.values)
        try:
            yield self.module
        finally:
            self.write(live)


def build():
    def stage(n_in, n_out, stride):
        return [nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU()]

    return nn.Sequential(*stage(1, 12, 1), *stage(12, 24, 2), *stage(24, 32, 2),
                         nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, CLASSES))


@torch.no_grad()
def accuracy(net, loader):
    net.eval()
    right = total = 0
    for x, y in loader:
        right += (net(x).argmax(1) == y).sum().item()
        total += len(y)
    return right / total


def decay_groups(net, weight_decay):
    matrices = [p for p in net.parameters() if p.ndim > 1]
    others = [p for p in net.parameters() if p.ndim <= 1]
    return [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]


def run():
    gen = torch.Generator().manual_seed(11)
    patterns = F.avg_pool2d(torch.randn(CLASSES, 1, SIZE, SIZE, generator=gen), 3, 1, 1) * 2
    train_x, train_y = make_images(3000, patterns, gen)
    valid, test = make_images(600, patterns, gen), make_images(600, patterns, gen)
    mean, std = train_x.mean(), train_x.std()
    train_set = TensorDataset((train_x - mean) / std, train_y)
    sampler = DistributedSampler(train_set, shuffle=True, seed=11)
    train_loader = DataLoader(train_set, batch_size=BATCH, sampler=sampler, drop_last=True)
    valid_loader = DataLoader(TensorDataset((valid[0] - mean) / std, valid[1]), batch_size=200)
    test_loader = DataLoader(TensorDataset((test[0] - mean) / std, test[1]), batch_size=200)

    net = build()
    parallel = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(decay_groups(net, 1e-2), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)
    shadow = ShadowWeights(net, decay=0.99)
    best_score, best_values = -1.0, None
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        parallel.train()
        for x, y in train_loader:
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(parallel(x), y).backward()
            optimizer.step()
            shadow.update()
        scheduler.step()
        with shadow.applied() as averaged:
            score = accuracy(averaged, valid_loader)
        if score > best_score:
            best_score, best_values = score, shadow.copy_of(shadow.values)
        print(f"epoch {epoch} live {accuracy(net, valid_loader):.3f} averaged {score:.3f}")

    final = build()
    final.load_state_dict(best_values)
    print(f"best averaged valid {best_score:.3f} test {accuracy(final, test_loader):.3f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(11)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            run()
        finally:
            dist.destroy_process_group()
