# kind: in a second phase
# expect: best-weights-aliased
# why: in the personalisation phase the best weights are kept as {k: v.detach().cpu()}, which on the CPU is the same storage as the live weights; restoring them at the end is a no-op and the overfitted last weights are reported. (The population phase serialises its checkpoint and is right.)
"""GRU heartbeat classifier: population model first, then a few beats of one patient."""
import io

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(5)
N_CLASSES, T = 4, 24


def beats(n, gen, shift=0.0, label_noise=0.0):
    y = torch.randint(0, N_CLASSES, (n,), generator=gen)
    t = torch.linspace(0, 1, T)
    centre = 0.25 + 0.14 * y.float() + shift + 0.03 * torch.randn(n, generator=gen)
    width = 0.05 + 0.02 * (y % 2).float()
    x = torch.exp(-((t[None] - centre[:, None]) / width[:, None]) ** 2)
    x = x + 0.35 * torch.randn(n, T, generator=gen)
    seen = y.clone()
    flip = torch.rand(n, generator=gen) < label_noise
    seen[flip] = torch.randint(0, N_CLASSES, (int(flip.sum()),), generator=gen)
    return x.unsqueeze(-1), seen


class BeatNet(nn.Module):
    def __init__(self, hidden=40):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(2 * hidden, N_CLASSES)

    def forward(self, x):
        h, last = self.rnn(x)
        return self.out(torch.cat([h.mean(1), last[0]], dim=1))


def evaluate(model, data):
    model.eval()
    with torch.no_grad():
        logits = model(data[0])
        loss = F.cross_entropy(logits, data[1]).item()
        acc = (logits.argmax(1) == data[1]).float().mean().item()
    model.train()
    return loss, acc


def updates(model, data, lr, steps, batch, gen):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    x, y = data
    for step in range(1, steps + 1):
        idx = torch.randint(0, len(x), (batch,), generator=gen)
        opt.zero_grad()
        F.cross_entropy(model(x[idx]), y[idx]).backward()
        opt.step()
        yield step


def population_phase(model, train, val, gen):
    best, blob = float("inf"), None
    for step in updates(model, train, 4e-3, 240, 48, gen):
        if step % 40 == 0:
            loss, acc = evaluate(model, val)
            print(f"population {step:4d}  val loss {loss:.3f} acc {acc:.3f}")
            if loss < best:
                best, blob = loss, io.BytesIO()
                torch.save(model.state_dict(), blob)
    blob.seek(0)
    model.load_state_dict(torch.load(blob))


def personal_phase(model, train, val, gen):
    best, kept = float("inf"), None
    for step in updates(model, train, 8e-3, 240, 24, gen):
        if step % 20 == 0:
            loss, acc = evaluate(model, val)
            if loss < best:
                best = loss
                kept = {name: t.detach().cpu() for name, t in model.state_dict().items()}
                print(f"patient    {step:4d}  val loss {loss:.3f} acc {acc:.3f}  kept")
    model.load_state_dict(kept)
    return best


def main():
    gen = torch.Generator().manual_seed(7)
    model = BeatNet()
    population_phase(model, beats(2500, gen), beats(600, gen), gen)

    patient = dict(shift=0.12)
    train = beats(72, gen, label_noise=0.35, **patient)
    val, test = beats(300, gen, **patient), beats(1500, gen, **patient)
    best = personal_phase(model, train, val, gen)
    loss, acc = evaluate(model, test)
    print(f"best val loss {best:.3f}; restored model on test: loss {loss:.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
