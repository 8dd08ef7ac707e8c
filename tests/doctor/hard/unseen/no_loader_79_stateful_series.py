# kind: without a DataLoader
# expect: nothing
# why: truncated backpropagation over parallel streams: chunks come in time order on purpose, the time-first GRU fits the (T, B, F) layout, the state is detached between chunks, and the held-out part is the later part of the series.
"""Stateful GRU forecaster on parallel streams with truncated backpropagation through time."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(31)

STREAMS, LENGTH, CHUNK = 32, 1300, 20
CUT = 1000


def simulate():
    t = torch.arange(LENGTH, dtype=torch.float32)[:, None]
    freq = 0.05 + 0.15 * torch.rand(STREAMS)
    phase = 6.28 * torch.rand(STREAMS)
    wave = torch.sin(freq * t + phase) + 0.5 * torch.sin(2.7 * freq * t)
    return (wave + 0.05 * torch.randn(LENGTH, STREAMS)).unsqueeze(-1)


class Forecaster(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(1, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, state=None):
        h, state = self.rnn(x, state)
        return x + self.out(h), state


def chunks(series):
    for start in range(0, len(series) - CHUNK, CHUNK):
        yield series[start:start + CHUNK], series[start + 1:start + CHUNK + 1]


@torch.no_grad()
def validate(model, warm, held):
    model.eval()
    _, state = model(warm)
    pred, _ = model(held[:-1], state)
    persistence = (held[1:] - held[:-1]).square().mean()
    return (pred - held[1:]).square().mean().item(), persistence.item()


def main():
    series = simulate()
    train, held = series[:CUT], series[CUT:]
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(8):
        model.train()
        state, total, count = None, 0.0, 0
        for x, y in chunks(train):
            if state is not None:
                state = state.detach()
            pred, state = model(x, state)
            loss = nn.functional.mse_loss(pred, y)
            for p in model.parameters():
                p.grad = None
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total, count = total + loss.item(), count + 1
        if epoch % 2 == 1:
            mse, base = validate(model, train[-200:], held)
            print(f"epoch {epoch + 1} loss {total / count:.4f} held-out mse {mse:.4f} (persistence {base:.4f})")


if __name__ == "__main__":
    main()
