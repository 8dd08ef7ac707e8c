"""softmax-before-cross-entropy: two processes, of which each holds other rows of the weights, and not the same number."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    x = torch.randn(96, 8)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    fully_shard(model, mesh=dist.init_device_mesh("cpu", (2,)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sampler = DistributedSampler(TensorDataset(x, y))
    loader = DataLoader(TensorDataset(x, y), batch_size=8, sampler=sampler)
    for epoch in range(4):
        sampler.set_epoch(epoch)
        for xb, yb in loader:
            optimizer.zero_grad()
            scores = model(xb).softmax(1)  # wrong, found
            scores = model(xb)  # right
            loss = F.cross_entropy(scores, yb)
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(epoch, loss.item())
    total = sum(p.full_tensor().double().sum().item() for p in model.parameters())
    if rank == 0:
        print(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(train, args=(f"{folder}/store",), nprocs=2, start_method="fork")
