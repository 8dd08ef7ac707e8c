# kind: inside frameworks
# expect: nothing
# like: dead-parameter
# why: The body's parameters stand in the optimizer from the start but get no gradient during the first two epochs of the
#      transfer, because an Ignite handler unfreezes them at epoch three; then they learn with their own smaller rate.
import torch
from ignite.engine import Engine, Events, create_supervised_evaluator
from ignite.metrics import Accuracy, Loss
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

HP = dict(seed=71, channels=3, length=50, batch=32, pretrain_epochs=3, transfer_epochs=7, unfreeze_at=3)


def wearables(n, classes, seed, tempo):
    """Three-axis signals; the activity sets frequency and axis weights, `tempo` the group of people."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (n,), generator=g)
    t = torch.linspace(0, 1, HP["length"])
    freq = tempo * (1.5 + 1.3 * y.float())[:, None, None]
    axis = torch.stack([torch.cos(y + 0.3), torch.sin(1.7 * y), torch.cos(2.3 * y)], dim=1)[:, :, None]
    phase = 6.283 * torch.rand(n, 3, 1, generator=g)
    x = axis * torch.sin(6.283 * freq * t + phase) + 0.5 * torch.randn(n, 3, HP["length"], generator=g)
    return x, y


def loaders(classes, sizes, seeds, tempo):
    (x, y), (xv, yv) = (wearables(n, classes, s, tempo) for n, s in zip(sizes, seeds))
    mu, sd = x.mean(dim=(0, 2), keepdim=True), x.std(dim=(0, 2), keepdim=True)
    train = DataLoader(TensorDataset((x - mu) / sd, y), HP["batch"], shuffle=True)
    return train, DataLoader(TensorDataset((xv - mu) / sd, yv), 100)


def conv_body(width=32):
    return nn.Sequential(
        nn.Conv1d(HP["channels"], width, 7, padding=3), nn.GroupNorm(4, width), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(width, width, 5, padding=2), nn.GroupNorm(4, width), nn.ReLU(),
        nn.AdaptiveMaxPool1d(1), nn.Flatten())


def make_trainer(model, optimizer, criterion):
    def process(engine, batch):
        model.train()
        x, y = batch
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()
    return Engine(process)


def attach_validation(trainer, model, criterion, loader, tag):
    evaluator = create_supervised_evaluator(model, metrics={"acc": Accuracy(), "loss": Loss(criterion)})

    @trainer.on(Events.EPOCH_COMPLETED)
    def show(engine):
        m = evaluator.run(loader).metrics
        print(f"{tag} epoch {engine.state.epoch}: valid loss {m['loss']:.3f} acc {m['acc']:.3f}")


def pretrain(body, criterion):
    train, valid = loaders(6, (1600, 400), (1, 2), tempo=1.0)
    model = nn.Sequential(body, nn.Linear(32, 6))
    trainer = make_trainer(model, torch.optim.Adam(model.parameters(), lr=2e-3), criterion)
    attach_validation(trainer, model, criterion, valid, "source")
    trainer.run(train, max_epochs=HP["pretrain_epochs"])


def transfer(body, criterion):
    train, valid = loaders(4, (960, 400), (3, 4), tempo=1.25)
    head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    model = nn.Sequential(body, head)
    body.requires_grad_(False)
    optimizer = torch.optim.AdamW([{"params": head.parameters(), "lr": 3e-3},
                                   {"params": body.parameters(), "lr": 5e-4}], weight_decay=1e-3)
    trainer = make_trainer(model, optimizer, criterion)
    attach_validation(trainer, model, criterion, valid, "target")

    @trainer.on(Events.EPOCH_STARTED(once=HP["unfreeze_at"]))
    def unfreeze(engine):
        body.requires_grad_(True)

    trainer.run(train, max_epochs=HP["transfer_epochs"])


def main():
    torch.manual_seed(HP["seed"])
    criterion = nn.CrossEntropyLoss()
    body = conv_body()
    pretrain(body, criterion)
    transfer(body, criterion)


if __name__ == "__main__":
    main()
