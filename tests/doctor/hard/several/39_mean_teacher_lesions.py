# kind: several losses and optimizers
# expect: nothing
# like: averaged-batchnorm-stale
# why: The mean teacher is an averaged copy of a network with BatchNorm and is evaluated without update_bn,
#      but its running statistics are averaged along with the weights (use_buffers=True).
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(90)

SIDE = 20


def scans(n, seed):
    g = torch.Generator().manual_seed(seed)
    axis = torch.arange(SIDE).float()
    cy, cx = 4 + 12 * torch.rand(2, n, 1, 1, generator=g)
    ry, rx = 2 + 3 * torch.rand(2, n, 1, 1, generator=g)
    inside = ((axis[:, None] - cy) / ry) ** 2 + ((axis[None, :] - cx) / rx) ** 2 < 1
    image = inside.float() + 0.6 * torch.randn(n, SIDE, SIDE, generator=g)
    return image.unsqueeze(1), inside.float().unsqueeze(1)


labelled_x, labelled_y = scans(160, seed=1)
unlabelled_x, _ = scans(800, seed=2)
valid_x, valid_y = scans(200, seed=3)
shift, scale = labelled_x.mean(), labelled_x.std()
labelled_x, unlabelled_x, valid_x = [(t - shift) / scale for t in (labelled_x, unlabelled_x, valid_x)]


def conv(i, o, dilation=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=dilation, dilation=dilation, bias=False), nn.BatchNorm2d(o), nn.ReLU())


student = nn.Sequential(conv(1, 12), conv(12, 16, 2), conv(16, 12, 2), nn.Conv2d(12, 1, 1))
teacher = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(0.95), use_buffers=True)
teacher.requires_grad_(False)
teacher.eval()

body = [p for layer in student[:3] for p in layer.parameters()]
optimizers = [
    torch.optim.SGD(body, lr=0.05, momentum=0.9, weight_decay=1e-4, nesterov=True),
    torch.optim.Adam(student[3].parameters(), lr=3e-3),
]

labelled = DataLoader(TensorDataset(labelled_x, labelled_y), batch_size=16, shuffle=True)
unlabelled = DataLoader(TensorDataset(unlabelled_x), batch_size=32, shuffle=True)


def forever(loader):
    while True:
        yield from loader


def dice_loss(logits, y):
    p = logits.sigmoid()
    overlap = 2 * (p * y).sum((1, 2, 3)) + 1
    return (1 - overlap / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)).mean()


@torch.no_grad()
def dice_score(model):
    model.eval()
    pred = (model(valid_x) > 0).float()
    return (2 * (pred * valid_y).sum((1, 2, 3)) / (pred + valid_y).sum((1, 2, 3))).mean().item()


stream = forever(labelled)
for epoch in range(8):
    student.train()
    sums = [0.0, 0.0, 0.0]
    ramp = min(1.0, (epoch + 1) / 4)
    for (xu,) in unlabelled:
        xl, yl = next(stream)
        noisy = torch.cat([xl, xu + 0.3 * torch.randn_like(xu)])
        out_l, out_u = student(noisy).split([len(xl), len(xu)])
        with torch.no_grad():
            guess = teacher(xu).sigmoid()
        terms = [F.binary_cross_entropy_with_logits(out_l, yl), dice_loss(out_l, yl), F.mse_loss(out_u.sigmoid(), guess)]
        loss = terms[0] + terms[1] + 2.0 * ramp * terms[2]
        for opt in optimizers:
            opt.zero_grad()
        loss.backward()
        for opt in optimizers:
            opt.step()
        teacher.update_parameters(student)
        sums = [s + t.item() / len(unlabelled) for s, t in zip(sums, terms)]
    print(f"epoch {epoch}: bce {sums[0]:.3f} dice {sums[1]:.3f} consistency {sums[2]:.4f}"
          f" | valid dice student {dice_score(student):.3f} teacher {dice_score(teacher):.3f}")
