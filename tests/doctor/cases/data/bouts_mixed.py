"""A recording of bouts, put out of order once."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
lengths = torch.randint(10, 25, (70,))
activity = torch.randint(8, (70,)).repeat_interleave(lengths)[:1000]
activity = activity[torch.randperm(1000)]
centres = torch.randn(8, 6)


class Recording(Dataset):
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        noise = torch.randn(6, generator=torch.Generator().manual_seed(index))
        return {"signal": centres[activity[index]] + noise, "activity": activity[index]}


model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
loader = DataLoader(Recording(), batch_size=40)
for epoch in range(3):
    for batch in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch["signal"]), batch["activity"])
        loss.backward()
        optimizer.step()
print(loss.item())
