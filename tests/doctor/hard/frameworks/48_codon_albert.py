# kind: inside frameworks
# expect: nothing
# like: layer-shared-by-accident
# why: ALBERT runs one layer's weights at every depth and ties its output table to the input embedding by design. The
#      collator masks training rows anew each time but leaves validation rows, masked once beforehand, as they are.
import tempfile
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import AlbertConfig, AlbertForMaskedLM, Trainer, TrainingArguments, set_seed

torch.set_num_threads(1)

PAD, MASK, OFFSET, CODONS, LENGTH = 0, 1, 2, 20, 20


def genes(n, seed):
    """Codon strings made of recurring motifs, so that a hidden codon follows from its neighbours."""
    motifs = np.random.default_rng(77).integers(0, CODONS, (6, 5))
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(motifs), (n, LENGTH // 5))
    seq = motifs[picks].reshape(n, LENGTH)
    noise = rng.random(seq.shape) < 0.03
    return torch.from_numpy(np.where(noise, rng.integers(0, CODONS, seq.shape), seq) + OFFSET)


def hide(ids, rate, generator):
    """Replaces a share of the tokens by MASK; the rest of the labels is ignored."""
    chosen = torch.rand(ids.shape, generator=generator) < rate
    chosen[..., 0] |= ~chosen.any(-1)
    labels = ids.masked_fill(~chosen, -100)
    return ids.masked_fill(chosen, MASK), labels


class Genes(Dataset):
    def __init__(self, n, seed):
        self.ids = genes(n, seed)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i]}


class MaskedOnce(Genes):
    def __init__(self, n, seed, rate):
        super().__init__(n, seed)
        self.masked, self.labels = hide(self.ids, rate, torch.Generator().manual_seed(seed))

    def __getitem__(self, i):
        return {"input_ids": self.masked[i], "labels": self.labels[i]}


@dataclass
class DynamicMasking:
    rate: float = 0.2
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(3))

    def __call__(self, rows):
        ids = torch.stack([r["input_ids"] for r in rows])
        if "labels" in rows[0]:
            labels = torch.stack([r["labels"] for r in rows])
        else:
            ids, labels = hide(ids, self.rate, self.generator)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def masked_accuracy(p):
    asked = p.label_ids != -100
    return {"masked_accuracy": float((p.predictions[asked] == p.label_ids[asked]).mean())}


def main():
    set_seed(29)
    config = AlbertConfig(
        vocab_size=CODONS + OFFSET, embedding_size=32, hidden_size=64, num_hidden_layers=2, num_hidden_groups=1,
        num_attention_heads=4, intermediate_size=128, max_position_embeddings=LENGTH, type_vocab_size=1,
        hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.05, pad_token_id=PAD, bos_token_id=None,
        eos_token_id=None)
    model = AlbertForMaskedLM(config)
    train, valid = Genes(1600, 1), MaskedOnce(320, 2, rate=0.2)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out, num_train_epochs=4, per_device_train_batch_size=32, per_device_eval_batch_size=80,
            learning_rate=3e-3, warmup_steps=30, lr_scheduler_type="cosine", weight_decay=0.01, logging_steps=50,
            eval_strategy="epoch", save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True,
            dataloader_pin_memory=False, label_names=["labels"], seed=29)
        Trainer(model=model, args=args, train_dataset=train, eval_dataset=valid, data_collator=DynamicMasking(),
                compute_metrics=masked_accuracy,
                preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)).train()


if __name__ == "__main__":
    main()
