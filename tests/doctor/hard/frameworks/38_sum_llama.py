# kind: inside frameworks
# expect: nothing
# like: padding-in-loss
# why: The pad token is the end token, so pad ids and real targets are the same number; the collator builds labels from
#      the lengths, so the one true end token counts and every padded place is -100.
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments, set_seed

torch.set_num_threads(1)

SYMBOLS = ["<eos>", "<bos>"] + list("0123456789+=")
STOI = {s: i for i, s in enumerate(SYMBOLS)}
EOS = PAD = STOI["<eos>"]
BOS = STOI["<bos>"]


def encode(a, b):
    text = f"{a}+{b}="
    prompt = [BOS] + [STOI[c] for c in text]
    answer = [STOI[c] for c in str(a + b)[::-1]] + [EOS]
    return prompt, answer


class Sums(Dataset):
    def __init__(self, pairs):
        self.items = [encode(a, b) for a, b in pairs]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class RightPad:
    def __call__(self, rows):
        width = max(len(p) + len(a) for p, a in rows)
        ids = torch.full((len(rows), width), PAD, dtype=torch.long)
        mask = torch.zeros_like(ids)
        labels = torch.full_like(ids, -100)
        for r, (prompt, answer) in enumerate(rows):
            n, m = len(prompt), len(prompt) + len(answer)
            ids[r, :m] = torch.tensor(prompt + answer)
            mask[r, :m] = 1
            labels[r, n:m] = torch.tensor(answer)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


class Exactness(TrainerCallback):
    """Counts the validation rows whose whole answer (with the end token) is right under teacher forcing."""

    def __init__(self, rows):
        self.batch = RightPad()(rows)

    def on_epoch_end(self, args, state, control, model=None, **kwargs):
        was_training = model.training
        model.eval()
        with torch.no_grad():
            logits = model(input_ids=self.batch["input_ids"], attention_mask=self.batch["attention_mask"]).logits
        model.train(was_training)
        goal = self.batch["labels"][:, 1:]
        right = (logits[:, :-1].argmax(-1) == goal) | (goal == -100)
        print(f"step {state.global_step}: exact answers {right.all(1).float().mean():.3f}")


def main():
    set_seed(7)
    pairs = [(a, b) for a in range(60) for b in range(60)]
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(1)).tolist()
    train = Sums([pairs[i] for i in order[:3200]])
    valid = Sums([pairs[i] for i in order[3200:]])
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(SYMBOLS), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=16, bos_token_id=BOS, eos_token_id=EOS, pad_token_id=None,
        tie_word_embeddings=False, use_cache=False))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, num_train_epochs=5, per_device_train_batch_size=64, per_device_eval_batch_size=200,
            learning_rate=3e-3, lr_scheduler_type="cosine", warmup_steps=20, weight_decay=0.01, logging_steps=50,
            eval_strategy="epoch", save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True,
            dataloader_pin_memory=False, remove_unused_columns=False, seed=7)
        trainer = Trainer(model=model, args=args, train_dataset=train, eval_dataset=valid, data_collator=RightPad(),
                          callbacks=[Exactness([valid[i] for i in range(len(valid))])])
        trainer.train()


if __name__ == "__main__":
    main()
