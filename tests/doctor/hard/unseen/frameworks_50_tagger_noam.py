# kind: inside frameworks
# expect: nothing
# like: lambda-absolute-lr
# why: The Noam rule returns the learning rate itself, and the optimizer's own rate is 1.0 on purpose, so the factor is
#      the rate; Lightning steps it every batch (interval="step"), which is what the warm-up is counted in.
import logging
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

torch.set_num_threads(1)
warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

PAD_WORD, PAD_TAG = 0, -1
N_WORDS, N_TAGS = 80, 5


def corpus(n, seed):
    """Words 1..79; a tag depends on the word's class and on the word before it."""
    g = torch.Generator().manual_seed(seed)
    sentences = []
    for _ in range(n):
        k = int(torch.randint(6, 21, (1,), generator=g))
        words = torch.randint(1, N_WORDS, (k,), generator=g)
        before = torch.cat([words.new_zeros(1), words[:-1]])
        tags = (words % 4) + ((before % 3 == 1) & (words % 4 == 3)).long()
        sentences.append((words, tags))
    return sentences


def collate(batch):
    words, tags = zip(*batch)
    return (pad_sequence(words, batch_first=True, padding_value=PAD_WORD),
            pad_sequence(tags, batch_first=True, padding_value=PAD_TAG))


def noam(d_model, warmup, scale):
    def rate(step):
        step = step + 1
        return scale * d_model ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)
    return rate


class Tagger(L.LightningModule):
    def __init__(self, d_model=48, heads=4, layers=2, warmup=60, scale=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.words = nn.Embedding(N_WORDS, d_model, padding_idx=PAD_WORD)
        self.places = nn.Parameter(0.1 * torch.randn(32, d_model))
        layer = nn.TransformerEncoderLayer(d_model, heads, 2 * d_model, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(d_model), enable_nested_tensor=False)
        self.tags = nn.Linear(d_model, N_TAGS)
        self.right, self.total = 0, 0

    def forward(self, words):
        h = self.words(words) + self.places[:words.shape[1]]
        return self.tags(self.encoder(h, src_key_padding_mask=words == PAD_WORD))

    def training_step(self, batch, batch_idx):
        words, tags = batch
        return F.cross_entropy(self(words).transpose(1, 2), tags, ignore_index=PAD_TAG)

    def validation_step(self, batch, batch_idx):
        words, tags = batch
        real = tags != PAD_TAG
        self.right += (self(words).argmax(-1)[real] == tags[real]).sum().item()
        self.total += real.sum().item()

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            lr = self.optimizers().param_groups[0]["lr"]
            print(f"epoch {self.current_epoch}: lr {lr:.5f} tag accuracy {self.right / self.total:.3f}")
        self.right, self.total = 0, 0

    def configure_optimizers(self):
        hp = self.hparams
        optimizer = torch.optim.Adam(self.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, noam(hp.d_model, hp.warmup, hp.scale))
        return [optimizer], [{"scheduler": schedule, "interval": "step", "frequency": 1}]


if __name__ == "__main__":
    L.seed_everything(51)
    train = DataLoader(corpus(1600, 1), batch_size=32, shuffle=True, collate_fn=collate)
    valid = DataLoader(corpus(400, 2), batch_size=100, collate_fn=collate)
    trainer = L.Trainer(max_epochs=7, accelerator="cpu", devices=1, logger=False, gradient_clip_val=1.0,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Tagger(), train, valid)
