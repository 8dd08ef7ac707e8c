# kind: no_loader
# expect: nothing
# why: Truncated backpropagation needs consecutive chunks; state is detached, offsets differ per epoch, the LSTM gets (time, batch).
"""LSTM language model on one long stream: truncated backpropagation with state carried between chunks."""
import argparse
import copy
import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = tuple[Tensor, Tensor]


def make_stream(n: int, vocab: int, seed: int) -> Tensor:
    """Tokens from a hidden switch between two transition tables, with long sojourns."""
    gen = torch.Generator().manual_seed(seed)
    shared = torch.Generator().manual_seed(99)
    tables = torch.softmax(2.0 * torch.randn(2, vocab, vocab, generator=shared), dim=-1).cumsum(-1)
    draws = torch.rand(n, generator=gen)
    switches = torch.rand(n, generator=gen) < 0.02
    mode, token, out = 0, 0, []
    for u, flip in zip(draws.tolist(), switches.tolist()):
        mode = 1 - mode if flip else mode
        token = min(int(torch.searchsorted(tables[mode, token], u)), vocab - 1)
        out.append(token)
    return torch.tensor(out)


def lanes(stream: Tensor, width: int, offset: int = 0) -> Tensor:
    """Cuts the stream into `width` parallel lanes, (time, lane)."""
    usable = stream[offset:]
    length = len(usable) // width
    return usable[: length * width].view(width, length).t().contiguous()


def chunks(data: Tensor, span: int) -> Iterator[tuple[Tensor, Tensor]]:
    for start in range(0, len(data) - 1, span):
        stop = min(start + span, len(data) - 1)
        yield data[start:stop], data[start + 1 : stop + 1]


class StreamModel(nn.Module):
    def __init__(self, vocab: int, dim: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.drop = nn.Dropout(dropout)
        self.lstm = nn.LSTM(dim, dim, num_layers=layers, dropout=dropout)
        self.head = nn.Linear(dim, vocab)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.1)

    def forward(self, tokens: Tensor, state: State | None) -> tuple[Tensor, State]:
        hidden, state = self.lstm(self.drop(self.embed(tokens)), state)
        return self.head(self.drop(hidden)), state


def cut(state: State) -> State:
    return state[0].detach(), state[1].detach()


@torch.no_grad()
def perplexity(model: StreamModel, data: Tensor, span: int) -> float:
    model.eval()
    state, total, seen = None, 0.0, 0
    for x, y in chunks(data, span):
        logits, state = model(x, state)
        total += F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum").item()
        seen += y.numel()
    return math.exp(total / seen)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=20)
    parser.add_argument("--dim", type=int, default=48)
    parser.add_argument("--lanes", type=int, default=24)
    parser.add_argument("--span", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    train = make_stream(30_000, args.vocab, args.seed)
    valid = lanes(make_stream(6_000, args.vocab, args.seed + 1), 8)
    model = StreamModel(args.vocab, args.dim, layers=2, dropout=0.1)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode="min", factor=0.5, patience=0, threshold=5e-3)

    best, best_state = math.inf, copy.deepcopy(model.state_dict())
    for epoch in range(args.epochs):
        model.train()
        offset = int(torch.randint(0, len(train) // args.lanes, ()))
        state, total, seen = None, 0.0, 0
        for x, y in chunks(lanes(train, args.lanes, offset), args.span):
            if state is not None:
                state = cut(state)
            logits, state = model(x, state)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item() * y.numel()
            seen += y.numel()
        score = perplexity(model, valid, args.span)
        sched.step(score)
        if score < best:
            best, best_state = score, copy.deepcopy(model.state_dict())
        print(f"epoch {epoch} train ppl {math.exp(total / seen):.3f} valid ppl {score:.3f} lr {opt.param_groups[0]['lr']:.1e}")
    model.load_state_dict(best_state)
    print(f"best valid ppl {perplexity(model, valid, args.span):.3f}")


if __name__ == "__main__":
    main()
