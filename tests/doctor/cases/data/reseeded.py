import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Spectra(Dataset):
    def __init__(self, n, seed=0):
        self.rng = np.random.default_rng(seed)
        self.labels = self.rng.integers(0, 3, n)
        self.values = self.rng.normal(size=(n, 12)).astype(np.float32) + self.labels[:, None]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        scale = self.rng.uniform(0.9, 1.1)
        return torch.tensor(self.values[i] * scale, dtype=torch.float32), int(self.labels[i])


def seed_worker(worker_id):
    info = get_worker_info()
    info.dataset.rng = np.random.default_rng(torch.initial_seed() % 2**32)


torch.manual_seed(0)
loader = DataLoader(Spectra(150), batch_size=15, shuffle=True, num_workers=2, worker_init_fn=seed_worker)
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
