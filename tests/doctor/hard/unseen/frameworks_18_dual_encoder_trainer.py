# kind: inside frameworks
# expect: nothing
# like: batch-mixed
# why: the loss compares every query with every passage of the batch (in-batch negatives), which is how InfoNCE works; the
#      embeddings themselves are computed for each sample alone.
"""Query/passage retrieval with in-batch negatives: own model and own compute_loss in Trainer."""
import argparse
import logging
import tempfile

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

torch.set_num_threads(1)
logging.getLogger("transformers").setLevel(logging.ERROR)
VOCAB = 300


class Pairs(Dataset):
    """A query repeats a few of the passage's words through a fixed dictionary (another language)."""

    def __init__(self, count, seed):
        dictionary = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(55))
        g = torch.Generator().manual_seed(seed)
        self.passages = torch.randint(0, VOCAB, (count, 16), generator=g)
        chosen = torch.rand(count, 16, generator=g).argsort(1)[:, :6]
        self.queries = dictionary[self.passages.gather(1, chosen)]

    def __len__(self):
        return len(self.passages)

    def __getitem__(self, i):
        return {"query": self.queries[i], "passage": self.passages[i]}


class Tower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.project = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        nn.init.normal_(self.embed.weight, std=0.3)

    def forward(self, tokens):
        h = self.embed(tokens).mean(1) * tokens.size(1) ** 0.5
        return F.normalize(h + self.project(h), dim=-1)


class DualEncoder(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.query_tower, self.passage_tower = Tower(dim), Tower(dim)
        self.log_scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, query, passage):
        return self.query_tower(query), self.passage_tower(passage)


class ContrastiveTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        q, p = model(inputs["query"], inputs["passage"])
        scores = model.log_scale.clamp(max=4.6).exp() * q @ p.t()
        target = torch.arange(len(q), device=q.device)
        loss = (F.cross_entropy(scores, target) + F.cross_entropy(scores.t(), target)) / 2
        return (loss, (q, p)) if return_outputs else loss


class Retrieval(TrainerCallback):
    def __init__(self, dataset):
        self.dataset = dataset

    @torch.no_grad()
    def on_epoch_end(self, args, state, control, model=None, **kwargs):
        model.eval()
        q, p = model(self.dataset.queries, self.dataset.passages)
        hit = ((q @ p.t()).argmax(1) == torch.arange(len(q))).float().mean().item()
        model.train()
        print(f"step {state.global_step}: recall@1 of {len(q)} = {hit:.3f}")

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print(f"step {state.global_step}: loss {float(logs['loss']):.3f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    args = parser.parse_args()
    set_seed(70)
    with tempfile.TemporaryDirectory() as folder:
        trainer = ContrastiveTrainer(
            model=DualEncoder(),
            args=TrainingArguments(
                folder, num_train_epochs=args.epochs, per_device_train_batch_size=64, learning_rate=4e-3,
                warmup_steps=20, save_strategy="no", logging_steps=40, report_to=[], use_cpu=True, disable_tqdm=True,
                seed=70, remove_unused_columns=False, dataloader_drop_last=True,
            ),
            train_dataset=Pairs(3072, seed=1),
            callbacks=[Retrieval(Pairs(256, seed=2))],
        )
        trainer.train()


if __name__ == "__main__":
    main()
