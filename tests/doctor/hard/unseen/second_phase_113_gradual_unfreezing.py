# kind: second_phase
# expect: nothing
# why: might be accused of frozen-parameter-moves, frozen-batchnorm-moves and trained-in-eval-mode; blocks are added to the optimizer when they are unfrozen, and only blocks that are still frozen stay in eval mode so that their statistics rest.
"""Transfer to a small task: the blocks are unfrozen one after the other from the top."""
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SIZE = 16


def block(n_in, n_out, stride):
    return nn.Sequential(nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU())


class ConvNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.blocks = nn.ModuleList([block(1, 16, 1), block(16, 24, 2), block(24, 32, 2)])
        self.head = nn.Linear(32, classes)
        self.frozen: set[int] = set()

    def forward(self, x):
        for layer in self.blocks:
            x = layer(x)
        return self.head(x.mean(dim=(2, 3)))

    def train(self, mode=True):
        super().train(mode)
        for i in self.frozen:
            self.blocks[i].eval()
        return self

    def freeze(self, i):
        self.frozen.add(i)
        self.blocks[i].requires_grad_(False)

    def unfreeze(self, i):
        self.frozen.discard(i)
        self.blocks[i].requires_grad_(True)


def textures(n, angles, gen):
    """Gratings with a class-dependent angle and random phase and frequency."""
    y = torch.randint(0, len(angles), (n,), generator=gen)
    grid = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    angle = angles[y][:, None, None]
    freq = 5 + 2 * torch.rand(n, 1, 1, generator=gen)
    phase = 6.28 * torch.rand(n, 1, 1, generator=gen)
    image = torch.sin(freq * (xx * angle.cos() + yy * angle.sin()) + phase)
    return (image + 1.5 * torch.randn(n, SIZE, SIZE, generator=gen))[:, None], y


def run_epoch(model, loader, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 5.0)
        optimizer.step()


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = torch.cat([model(part) for part in x.split(256)])
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def pretrain(gen):
    x, y = textures(3000, torch.linspace(0, 3.14 * 7 / 8, 8), gen)
    model = ConvNet(8)
    loader = DataLoader(TensorDataset((x - x.mean()) / x.std(), y), batch_size=64, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
    for epoch in range(5):
        run_epoch(model, loader, optimizer)
    return model, x.mean(), x.std()


def transfer(model, train, valid):
    model.head = nn.Linear(32, 4)
    for i in range(len(model.blocks)):
        model.freeze(i)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=3e-3, weight_decay=1e-3)
    loader = DataLoader(TensorDataset(*train), batch_size=32, shuffle=True, drop_last=True)
    best_loss, best_state = float("inf"), None
    # The first block is never unfrozen.
    for stage, (unfreeze, lr) in enumerate([(None, None), (2, 1e-3), (1, 3e-4)]):
        if unfreeze is not None:
            model.unfreeze(unfreeze)
            optimizer.add_param_group({"params": list(model.blocks[unfreeze].parameters()), "lr": lr})
        for epoch in range(8):
            run_epoch(model, loader, optimizer)
            loss, accuracy = evaluate(model, *valid)
            if loss < best_loss:
                best_loss, best_state = loss, copy.deepcopy(model.state_dict())
        print(f"stage {stage} frozen {sorted(model.frozen)} valid loss {loss:.3f} accuracy {accuracy:.3f}")
    model.load_state_dict(best_state)
    return model


def main():
    torch.set_num_threads(1)
    torch.manual_seed(19)
    gen = torch.Generator().manual_seed(19)
    model, mean, std = pretrain(gen)
    angles = torch.tensor([0.2, 0.9, 1.7, 2.5])
    train, valid, test = (((x - mean) / std, y) for x, y in (textures(n, angles, gen) for n in (640, 400, 800)))
    model = transfer(model, train, valid)
    print("test loss %.3f accuracy %.3f" % evaluate(model, *test))


if __name__ == "__main__":
    main()
