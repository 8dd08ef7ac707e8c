# kind: in a second phase
# expect: nothing
# like: kl-on-probabilities
# why: both sides of kl_div are log-probabilities, with log_target=True, "batchmean" and the usual T*T; the teacher is
#   trained first, then frozen in eval mode.
import torch
from torch import nn, Tensor
import torch.nn.functional as F

REGISTRY = {}


def register(fn):
    REGISTRY[fn.__name__] = fn
    return fn


@register
def teacher_net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(32 * 9, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))


@register
def student_net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(144, 48), nn.ReLU(), nn.Linear(48, 10))


def glyphs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    fonts = (torch.rand(10, 8, 8, generator=torch.Generator().manual_seed(0)) < 0.45).float()
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(10, (count,), generator=g)
    dy, dx = torch.randint(5, (2, count), generator=g)
    canvas = torch.zeros(count, 12, 12)
    grid = torch.arange(8)
    rows = torch.arange(count)[:, None, None]
    canvas[rows, (dy[:, None] + grid)[:, :, None], (dx[:, None] + grid)[:, None, :]] = fonts[label]
    canvas = canvas + 0.35 * torch.randn(canvas.shape, generator=g)
    return ((canvas - 0.2) / 0.52).unsqueeze(1), label


def hard_loss(x: Tensor, y: Tensor, net: nn.Module) -> Tensor:
    return F.cross_entropy(net(x), y)


def distill_loss(teacher: nn.Module, temperature: float, share: float):
    def loss(x: Tensor, y: Tensor, net: nn.Module) -> Tensor:
        logits = net(x)
        with torch.no_grad():
            wanted = F.log_softmax(teacher(x) / temperature, dim=1)
        given = F.log_softmax(logits / temperature, dim=1)
        soft = F.kl_div(given, wanted, reduction="batchmean", log_target=True) * temperature ** 2
        return share * soft + (1 - share) * F.cross_entropy(logits, y)
    return loss


def fit(name, net, loss_fn, data, valid, epochs, lr):
    x, y = data
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[epochs * 2 // 3], gamma=0.2)
    for epoch in range(epochs):
        net.train()
        total = 0.0
        for rows in torch.randperm(len(x)).split(50):
            loss = loss_fn(x[rows], y[rows], net)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item() * len(rows)
        sched.step()
        net.eval()
        with torch.no_grad():
            acc = (net(valid[0]).argmax(1) == valid[1]).float().mean().item()
        print(f"{name:8s} epoch {epoch}  loss {total / len(x):.4f}  valid {acc:.3f}")
    return net


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(606)
    data, valid = glyphs(2000, seed=1), glyphs(500, seed=2)
    teacher = fit("teacher", REGISTRY["teacher_net"](), hard_loss, data, valid, epochs=4, lr=0.02)
    teacher.requires_grad_(False)
    teacher.eval()
    student = REGISTRY["student_net"]()
    fit("student", student, distill_loss(teacher, temperature=3.0, share=0.8), data, valid, epochs=9, lr=0.02)
