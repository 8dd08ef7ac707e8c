# kind: inside frameworks
# expect: accumulation-not-divided
# why: Inside accelerator.accumulate the total is sent back with total.backward() instead of accelerator.backward(total),
#      which would divide by gradient_accumulation_steps; four batch means are summed for SGD.
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

SIZE, CELLS = 32, 8


def scenes(n, seed):
    """One or two bright boxes per picture; targets are a centre map and (h, w) at the centres."""
    g = torch.Generator().manual_seed(seed)
    img = 0.3 * torch.randn(n, 1, SIZE, SIZE, generator=g)
    heat, box = torch.zeros(n, CELLS, CELLS), torch.zeros(n, 2, CELLS, CELLS)
    stride = SIZE // CELLS
    for i in range(n):
        for _ in range(int(torch.randint(1, 3, (1,), generator=g))):
            h, w = torch.randint(4, 12, (2,), generator=g).tolist()
            y = int(torch.randint(0, SIZE - h, (1,), generator=g))
            x = int(torch.randint(0, SIZE - w, (1,), generator=g))
            img[i, 0, y:y + h, x:x + w] += 1.0
            cy, cx = (y + h // 2) // stride, (x + w // 2) // stride
            heat[i, cy, cx] = 1.0
            box[i, :, cy, cx] = torch.tensor([h, w]) / 12.0
    return img, heat, box


class CenterNet(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, c, 5, stride=2, padding=2), nn.GroupNorm(4, c), nn.ReLU(),
            nn.Conv2d(c, 2 * c, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * c), nn.ReLU(),
            nn.Conv2d(2 * c, 2 * c, 3, padding=1), nn.GroupNorm(4, 2 * c), nn.ReLU())
        self.heat, self.size = nn.Conv2d(2 * c, 1, 1), nn.Conv2d(2 * c, 2, 1)
        nn.init.constant_(self.heat.bias, -3.0)

    def forward(self, x):
        f = self.stem(x)
        return self.heat(f).squeeze(1), self.size(f)


class DetectionLoss(nn.Module):
    def __init__(self, size_weight=0.5, gamma=2.0):
        super().__init__()
        self.size_weight, self.gamma = size_weight, gamma

    def forward(self, output, heat, box):
        logit, size = output
        ce = F.binary_cross_entropy_with_logits(logit, heat, reduction="none")
        p = torch.sigmoid(logit)
        focal = (ce * (1 - p * heat - (1 - p) * (1 - heat)) ** self.gamma).sum() / heat.sum()
        where = heat.bool().unsqueeze(1).expand_as(size)
        return {"focal": focal, "size": self.size_weight * F.l1_loss(size[where], box[where])}


class DetectorTraining:
    def __init__(self, lr=0.01, micro=16, accumulate=4):
        self.accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
        img, heat, box = scenes(1024, 1)
        img_v, heat_v, box_v = scenes(256, 2)
        mean, std = img.mean(), img.std()
        train = DataLoader(TensorDataset((img - mean) / std, heat, box), micro, shuffle=True)
        valid = DataLoader(TensorDataset((img_v - mean) / std, heat_v, box_v), 64)
        model = CenterNet()
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.model, self.optimizer, self.train, self.valid = self.accelerator.prepare(model, optimizer, train, valid)
        self.criterion = DetectionLoss()

    def epoch(self):
        self.model.train()
        sums = {"focal": 0.0, "size": 0.0}
        for img, heat, box in self.train:
            with self.accelerator.accumulate(self.model):
                terms = self.criterion(self.model(img), heat, box)
                total = sum(terms.values())
                total.backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
            for name, value in terms.items():
                sums[name] += value.item() / len(self.train)
        return sums

    @torch.no_grad()
    def recall(self):
        self.model.eval()
        found = there = 0
        for img, heat, _ in self.valid:
            logit, _ = self.model(img)
            peak = logit.flatten(1).argmax(1)
            found += heat.flatten(1).gather(1, peak[:, None]).sum().item()
            there += len(img)
        return found / there


def main():
    set_seed(44)
    job = DetectorTraining()
    for e in range(10):
        sums = job.epoch()
        print(f"epoch {e}: focal {sums['focal']:.3f} size {sums['size']:.3f} top-1 hit {job.recall():.3f}")


if __name__ == "__main__":
    main()
