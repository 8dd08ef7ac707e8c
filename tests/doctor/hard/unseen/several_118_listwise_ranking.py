# kind: several
# expect: nothing
# why: Might be accused of softmax-wrong-dim, loss-broadcast, metric-broadcast or batch-mixed: the documents of one query are meant to be normalised against each other along dim 0 by segment, and pairs are formed by broadcasting on purpose.
"""Learning to rank with ragged queries: a segment-wise listwise loss plus a pairwise logistic loss."""
import torch
import torch.nn.functional as F
from torch import nn


class SegmentLogSumExp(torch.autograd.Function):
    """log sum exp over the rows of each segment; the gradient is the softmax within the segment."""

    @staticmethod
    def forward(ctx, values, segment, count):
        top = torch.full((count,), float("-inf")).scatter_reduce(0, segment, values, "amax")
        total = torch.zeros(count).index_add(0, segment, (values - top[segment]).exp())
        out = top + total.log()
        ctx.save_for_backward(values, segment, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        values, segment, out = ctx.saved_tensors
        return grad[segment] * (values - out[segment]).exp(), None, None


def make_queries(n, gen, features=10):
    taste = torch.randn(features, generator=torch.Generator().manual_seed(7))
    queries = []
    for _ in range(n):
        docs = int(torch.randint(4, 21, (1,), generator=gen))
        x = torch.randn(docs, features, generator=gen)
        utility = x @ taste + 1.5 * x[:, 0] * x[:, 1] + 0.5 * torch.randn(docs, generator=gen)
        cuts = torch.tensor([-2.0, 1.5, 4.0])
        raw = x * torch.linspace(1, 50, features) + 10  # the columns as they come from the log files
        queries.append((raw, torch.bucketize(utility, cuts)))
    return queries


def pack(queries):
    x = torch.cat([q[0] for q in queries])
    grade = torch.cat([q[1] for q in queries]).float()
    segment = torch.repeat_interleave(torch.arange(len(queries)), torch.tensor([len(q[1]) for q in queries]))
    return x, grade, segment, len(queries)


def listwise(scores, grade, segment, count):
    gain = 2.0**grade - 1
    mass = torch.zeros(count).index_add(0, segment, gain)
    keep = mass > 0  # a query without any relevant document teaches nothing
    share = gain / mass.clamp_min(1e-9)[segment]
    log_p = scores - SegmentLogSumExp.apply(scores, segment, count)[segment]
    per_query = torch.zeros(count).index_add(0, segment, -share * log_p)
    return per_query[keep].mean()


def pairwise(scores, grade, segment):
    above = (grade.unsqueeze(1) > grade.unsqueeze(0)) & (segment.unsqueeze(1) == segment.unsqueeze(0))
    better, worse = above.nonzero(as_tuple=True)
    return F.softplus(-(scores[better] - scores[worse])).mean()


class Scorer(nn.Module):
    def __init__(self, mean, std, width=48):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.net = nn.Sequential(
            nn.Linear(len(mean), width), nn.LayerNorm(width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )

    def forward(self, x):
        return self.net((x - self.mean) / self.std).squeeze(-1)


def ndcg(scores, grade, k=10):
    discount = 1 / torch.log2(torch.arange(2, k + 2).float())
    gain = 2.0 ** grade.float() - 1
    ideal = (gain.sort(descending=True).values[:k] * discount[: len(gain)]).sum()
    got = (gain[scores.argsort(descending=True)][:k] * discount[: len(gain)]).sum()
    return (got / ideal).item() if ideal > 0 else None


def evaluate(model, queries):
    model.eval()
    with torch.no_grad():
        values = [ndcg(model(x), grade) for x, grade in queries]
    values = [v for v in values if v is not None]
    return sum(values) / len(values)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(19)
    gen = torch.Generator().manual_seed(3)
    train, valid, test = make_queries(900, gen), make_queries(150, gen), make_queries(300, gen)
    docs = torch.cat([x for x, _ in train])
    model = Scorer(docs.mean(0), docs.std(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    epochs, per_step = 12, 30
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * (len(train) // per_step))
    best, kept = -1.0, None
    for epoch in range(1, epochs + 1):
        model.train()
        sums = {"list": 0.0, "pair": 0.0}
        for chunk in torch.randperm(len(train)).split(per_step):
            x, grade, segment, count = pack([train[i] for i in chunk.tolist()])
            scores = model(x)
            parts = {"list": listwise(scores, grade, segment, count), "pair": pairwise(scores, grade, segment)}
            optimizer.zero_grad()
            (parts["list"] + 0.5 * parts["pair"]).backward()
            optimizer.step()
            schedule.step()
            for name, part in parts.items():
                sums[name] += part.item() * count
        score = evaluate(model, valid)
        if score > best:
            best, kept = score, {k: v.clone() for k, v in model.state_dict().items()}
        if epoch % 4 == 0:
            print(f"epoch {epoch}", {k: round(v / len(train), 4) for k, v in sums.items()}, f"valid ndcg@10 {score:.4f}")
    model.load_state_dict(kept)
    print(f"test ndcg@10 {evaluate(model, test):.4f}")


if __name__ == "__main__":
    main()
