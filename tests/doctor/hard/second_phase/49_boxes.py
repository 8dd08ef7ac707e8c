# kind: in a second phase
# expect: frozen-parameter-moves
# why: at step 200 the backbone is "frozen" by requires_grad, but clear() only fills gradients with zeros and the same
#   AdamW goes on: zero gradients plus momentum and weight decay keep moving the backbone.
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(314)

SIZE, SHAPES = 24, 3
TOTAL, FREEZE_AT = 360, 200


def scene(count, gen):
    axis = torch.arange(SIZE).float()
    yy, xx = axis[None, :, None], axis[None, None, :]
    half = torch.rand(count, 1, 1, generator=gen) * 3 + 2.5
    cy = torch.rand(count, 1, 1, generator=gen) * (SIZE - 12) + 6
    cx = torch.rand(count, 1, 1, generator=gen) * (SIZE - 12) + 6
    kind = torch.randint(SHAPES, (count,), generator=gen)
    dy, dx = (yy - cy).abs(), (xx - cx).abs()
    forms = torch.stack([(torch.maximum(dy, dx) <= half), (dy ** 2 + dx ** 2 <= half ** 2), (dy + dx <= half)], 1).float()
    canvas = forms[torch.arange(count), kind] + 0.25 * torch.randn(count, SIZE, SIZE, generator=gen)
    canvas = (canvas - canvas.mean()) / canvas.std()
    box = torch.cat([cy, cx, half], 1).squeeze(-1) / SIZE
    return canvas.unsqueeze(1), kind, box


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1, stride=2), nn.GroupNorm(4, 16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, stride=2), nn.GroupNorm(4, 32), nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1), nn.GroupNorm(4, 32), nn.ReLU(), nn.Flatten())
        feats = 32 * (SIZE // 4) ** 2
        self.neck = nn.Sequential(nn.Linear(feats, 64), nn.ReLU())
        self.kind = nn.Linear(64, SHAPES)
        self.box = nn.Linear(64, 3)

    def forward(self, image):
        z = self.neck(self.backbone(image))
        return self.kind(z), self.box(z).sigmoid()


def clear(optimizer):
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad.detach_()
                p.grad.zero_()


def detection_loss(out, kind, box):
    logits, where = out
    return F.cross_entropy(logits, kind) + 5.0 * F.smooth_l1_loss(where, box, beta=0.05)


gen = torch.Generator().manual_seed(27)
images, kinds, boxes = scene(2000, gen)
v_images, v_kinds, v_boxes = scene(400, gen)

det = Detector()
optimizer = torch.optim.AdamW(det.parameters(), lr=1e-3, weight_decay=0.05)


def report(step, loss):
    det.eval()
    with torch.no_grad():
        logits, where = det(v_images)
        right = (logits.argmax(1) == v_kinds).float().mean().item()
        off = SIZE * (where - v_boxes).abs().mean().item()
    live = sum(p.numel() for p in det.parameters() if p.requires_grad)
    print(f"step {step:3d}  loss {loss:.3f}  valid kinds {right:.3f}  pixels off {off:.2f}  trainable {live}")
    det.train()


det.train()
queue = []
for step in range(1, TOTAL + 1):
    if not queue:
        queue = list(torch.randperm(len(images)).split(40))
    rows = queue.pop()
    if step == FREEZE_AT:
        for p in det.backbone.parameters():
            p.requires_grad = False
    clear(optimizer)
    loss = detection_loss(det(images[rows]), kinds[rows], boxes[rows])
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        report(step, loss.item())
