# kind: inside frameworks
# expect: weights-not-tied
# why: the output layer is meant to share the embedding table but gets a copy of it; both are trained and drift apart.
"""Small character language model as a LightningModule, tied input/output embeddings."""
import argparse

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def markov_stream(length, transition, generator):
    vocab = transition.size(0)
    out = torch.empty(length, dtype=torch.long)
    state = int(torch.randint(vocab, (1,), generator=generator))
    cumulative = transition.cumsum(1)
    draws = torch.rand(length, generator=generator)
    for i in range(length):
        state = min(int(torch.searchsorted(cumulative[state], draws[i])), vocab - 1)
        out[i] = state
    return out


def windows(stream, size):
    usable = (len(stream) - 1) // size * size
    return stream[:usable].view(-1, size), stream[1 : usable + 1].view(-1, size)


class CharLM(L.LightningModule):
    """GRU language model; the decoder reuses the embedding matrix (Press & Wolf)."""

    def __init__(self, vocab, dim=48, lr=4e-3):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.decoder = nn.Linear(dim, vocab)
        nn.init.normal_(self.embed.weight, std=0.15)
        nn.init.zeros_(self.decoder.bias)
        self.tie_weights()

    def tie_weights(self):
        self.decoder.weight.data.copy_(self.embed.weight.data)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.drop(self.embed(tokens)))
        return self.decoder(self.drop(hidden))

    def _loss(self, batch):
        x, y = batch
        return F.cross_entropy(self(x).flatten(0, 1), y.flatten())

    def training_step(self, batch, batch_idx):
        loss = self._loss(batch)
        self.log("train_loss", loss, on_step=False, on_epoch=True, batch_size=len(batch[0]))
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self._loss(batch), on_epoch=True, batch_size=len(batch[0]))

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch}: train {m['train_loss']:.3f}  valid {m['val_loss']:.3f}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=32)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()

    L.seed_everything(args.seed, verbose=False)
    generator = torch.Generator().manual_seed(args.seed)
    transition = torch.softmax(2.5 * torch.randn(args.vocab, args.vocab, generator=generator), dim=1)
    train = TensorDataset(*windows(markov_stream(38_401, transition, generator), 24))
    valid = TensorDataset(*windows(markov_stream(6_145, transition, generator), 24))

    model = CharLM(args.vocab)
    trainer = L.Trainer(
        accelerator="cpu", max_epochs=args.epochs, gradient_clip_val=1.0, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(train, batch_size=32, shuffle=True, drop_last=True), DataLoader(valid, batch_size=128))
    print("perplexity", float(trainer.callback_metrics["val_loss"].exp()))


if __name__ == "__main__":
    main()
