# kind: inside frameworks
# expect: dropout-in-eval
# why: F.dropout is called without training=self.training, so it drops activations during Lightning's validation too and
#      two validations of the same weights give different numbers.
"""Multi-label topic tagging of short texts (bag of embeddings) with Lightning."""
import argparse

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
VOCAB, TOPICS, LENGTH = 400, 8, 30


def make_reviews(count, topic_words, generator):
    labels = (torch.rand(count, TOPICS, generator=generator) < 0.3).float()
    words = torch.randint(0, VOCAB, (count, LENGTH), generator=generator)
    for t in range(TOPICS):
        hits = (torch.rand(count, LENGTH, generator=generator) < 0.10) & labels[:, t : t + 1].bool()
        picks = topic_words[t][torch.randint(0, topic_words.size(1), (count, LENGTH), generator=generator)]
        words = torch.where(hits, picks, words)
    return TensorDataset(words, labels)


class Tagger(L.LightningModule):
    def __init__(self, dim=64, dropout=0.3, lr=3e-3):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(VOCAB, dim)
        self.score = nn.Linear(dim, 1)
        self.hidden = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, TOPICS)

    def forward(self, words):
        e = self.embed(words)
        attention = torch.softmax(self.score(torch.tanh(e)), dim=1)
        pooled = (attention * e).sum(1) * LENGTH**0.5
        h = F.relu(self.hidden(F.dropout(pooled, self.hparams.dropout)))
        return self.out(F.dropout(h, self.hparams.dropout))

    def training_step(self, batch, batch_idx):
        words, labels = batch
        loss = F.binary_cross_entropy_with_logits(self(words), labels)
        self.log("train_loss", loss, on_step=False, on_epoch=True, batch_size=len(words))
        return loss

    def validation_step(self, batch, batch_idx):
        words, labels = batch
        logits = self(words)
        correct = ((logits > 0) == labels.bool()).float().mean()
        self.log("val_loss", F.binary_cross_entropy_with_logits(logits, labels), batch_size=len(words))
        self.log("val_acc", correct, batch_size=len(words))

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch}: train {m['train_loss']:.3f}  "
              f"val {m['val_loss']:.3f}  acc {m['val_acc']:.3f}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    L.seed_everything(args.seed, verbose=False)
    generator = torch.Generator().manual_seed(args.seed)
    topic_words = torch.randperm(VOCAB, generator=generator)[: TOPICS * 12].view(TOPICS, 12)
    train = make_reviews(3840, topic_words, generator)
    valid = make_reviews(1024, topic_words, generator)

    trainer = L.Trainer(
        accelerator="cpu", max_epochs=args.epochs, gradient_clip_val=1.0, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    model = Tagger()
    valid_loader = DataLoader(valid, batch_size=256)
    trainer.fit(model, DataLoader(train, batch_size=64, shuffle=True), valid_loader)
    print(trainer.validate(model, valid_loader, verbose=False)[0])


if __name__ == "__main__":
    main()
