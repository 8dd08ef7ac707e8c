import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def get_loaders(args):
    g = torch.Generator().manual_seed(1)
    x = torch.randn(600, 6, generator=g)
    y = (x.sum(1) > 0).long()
    train, valid = TensorDataset(x[:480], y[:480]), TensorDataset(x[480:], y[480:])
    sampler = DistributedSampler(train, num_replicas=args.world_size, rank=args.rank, seed=args.seed)
    eval_sampler = DistributedSampler(valid, num_replicas=args.world_size, rank=args.rank, shuffle=False)
    return DataLoader(train, args.batch, sampler=sampler), DataLoader(valid, 30, sampler=eval_sampler)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--batch", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    train_loader, valid_loader = get_loaders(args)
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    example, _ = next(iter(train_loader))
    print("input", tuple(example.shape))
    for epoch in range(4):
        train_loader.sampler.set_epoch(epoch)
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        model.eval()
        right = 0
        with torch.no_grad():
            for x, y in valid_loader:
                right += (model(x).argmax(1) == y).sum().item()
        print(epoch, right / len(valid_loader.sampler))


if __name__ == "__main__":
    main()
