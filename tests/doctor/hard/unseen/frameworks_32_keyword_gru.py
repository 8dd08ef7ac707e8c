# kind: inside frameworks
# expect: nothing
# like: clip-of-partial-cycle
# why: Gradients are accumulated over four batches with accelerator.accumulate; clipping, step, schedule and zero_grad
#      stand in every pass, but clipping is guarded by sync_gradients and Accelerate skips the others itself.
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

CONFIG = {
    "seed": 5,
    "words": 6,
    "mels": 20,
    "frames": 24,
    "train": 1024,
    "valid": 240,
    "batch": 16,
    "accumulate": 4,
    "epochs": 8,
    "lr": 8e-3,
    "max_norm": 1.0,
}


def synthesize(n, cfg, gen, templates):
    y = torch.randint(cfg["words"], (n,), generator=gen)
    x = 0.9 * torch.randn(n, cfg["frames"], cfg["mels"], generator=gen)
    shift = torch.randint(0, cfg["frames"] - templates.shape[1], (n,), generator=gen)
    for i in range(n):
        s = int(shift[i])
        x[i, s:s + templates.shape[1]] += templates[y[i]]
    return x, y


class KeywordSpotter(nn.Module):
    def __init__(self, mels, hidden, words):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(mels, hidden), nn.ReLU())
        self.rnn = nn.GRU(hidden, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.1)
        self.cls = nn.Linear(2 * hidden, words)

    def forward(self, frames):
        h, _ = self.rnn(self.front(frames))
        return self.cls(self.drop(h.amax(dim=1)))


def build_loaders(cfg):
    gen = torch.Generator().manual_seed(cfg["seed"])
    templates = 1.6 * torch.randn(cfg["words"], 8, cfg["mels"], generator=gen)
    xt, yt = synthesize(cfg["train"], cfg, gen, templates)
    xv, yv = synthesize(cfg["valid"], cfg, gen, templates)
    mu, sd = xt.mean(dim=(0, 1)), xt.std(dim=(0, 1))
    train = TensorDataset((xt - mu) / sd, yt)
    valid = TensorDataset((xv - mu) / sd, yv)
    return DataLoader(train, cfg["batch"], shuffle=True), DataLoader(valid, 80)


def evaluate(accelerator, model, loader):
    model.eval()
    right = total = 0
    with torch.no_grad():
        for frames, label in loader:
            guess = model(frames).argmax(-1)
            guess, label = accelerator.gather_for_metrics((guess, label))
            right += (guess == label).sum().item()
            total += label.numel()
    return right / total


def main(cfg):
    set_seed(cfg["seed"])
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=cfg["accumulate"])
    train_loader, valid_loader = build_loaders(cfg)
    model = KeywordSpotter(cfg["mels"], 32, cfg["words"])
    optimizer = torch.optim.RAdam(model.parameters(), lr=cfg["lr"])
    updates = cfg["epochs"] * (len(train_loader) // cfg["accumulate"])
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=updates)
    model, optimizer, train_loader, valid_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, valid_loader, scheduler)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    for epoch in range(cfg["epochs"]):
        model.train()
        running = 0.0
        for frames, label in train_loader:
            with accelerator.accumulate(model):
                loss = criterion(model(frames), label)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), cfg["max_norm"])
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            running += loss.item()
        acc = evaluate(accelerator, model, valid_loader)
        accelerator.print(f"epoch {epoch}: loss {running / len(train_loader):.3f}  valid acc {acc:.3f}")


if __name__ == "__main__":
    main(CONFIG)
