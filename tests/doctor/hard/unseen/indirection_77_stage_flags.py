# kind: behind indirection
# expect: requires-grad-typo
# why: the stage table says "require_grad": False; apply_stage() sets it by setattr on every encoder parameter, which only creates a meaningless attribute, so the encoder shared with task A keeps training on task B and task A breaks.
"""Shared encoder, task B is added as a probe on top of task A's representation."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(21)

STAGES = [
    {"name": "task_a", "epochs": 10, "lr": 2e-3, "head": "a", "flags": {}},
    {"name": "task_b", "epochs": 12, "lr": 2e-3, "head": "b",
     "flags": {"encoder": {"require_grad": False}, "heads.a": {"requires_grad": False}}},
]


def build():
    model = nn.ModuleDict({
        "encoder": nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 32), nn.Tanh()),
        "heads": nn.ModuleDict({"a": nn.Linear(32, 6), "b": nn.Linear(32, 3)}),
    })
    return model


def apply_stage(model, flags):
    for path, attrs in flags.items():
        target = model.get_submodule(path)
        for p in target.parameters():
            for key, value in attrs.items():
                setattr(p, key, value)


def optimizer_for(model, stage):
    wanted = [p for n, p in model.named_parameters()
              if p.requires_grad and (n.startswith("encoder") or n.startswith(f"heads.{stage['head']}"))]
    return torch.optim.Adam(wanted, lr=stage["lr"])


def synthesize(n, seed):
    g = torch.Generator().manual_seed(seed)
    mix = torch.randn(20, 4, generator=torch.Generator().manual_seed(99))
    x = torch.randn(n, 20, generator=g)
    z = torch.sin(x @ mix / 2.5)
    noise = 0.1 * torch.randn(n, 9, generator=g)
    wa = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
    wb = torch.randn(4, 3, generator=torch.Generator().manual_seed(2))
    return x, (z @ wa + noise[:, :6]).argmax(1), (z.flip(1) @ wb + noise[:, 6:]).argmax(1)


def loader_for(head, split):
    x, ya, yb = split
    return DataLoader(TensorDataset(x, ya if head == "a" else yb), batch_size=64, shuffle=True, drop_last=True)


@torch.no_grad()
def accuracy(model, head, split):
    x, ya, yb = split
    model.eval()
    pred = model["heads"][head](model["encoder"](x)).argmax(1)
    return (pred == (ya if head == "a" else yb)).float().mean().item()


def run_stage(model, stage, train, test):
    apply_stage(model, stage["flags"])
    opt = optimizer_for(model, stage)
    criterion = nn.CrossEntropyLoss()
    head = model["heads"][stage["head"]]
    for epoch in range(stage["epochs"]):
        model.train()
        total = count = 0
        for x, y in loader_for(stage["head"], train):
            opt.zero_grad()
            loss = criterion(head(model["encoder"](x)), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
            count += len(y)
        if epoch % 4 == 3:
            print(f"{stage['name']} epoch {epoch} loss {total / count:.4f} "
                  f"test {accuracy(model, stage['head'], test):.3f}")


def main():
    train, test = synthesize(2560, 10), synthesize(1000, 11)
    model = build()
    for stage in STAGES:
        run_stage(model, stage, train, test)
    for name in ("a", "b"):
        print(f"final accuracy task {name}: {accuracy(model, name, test):.3f}")


if __name__ == "__main__":
    main()
