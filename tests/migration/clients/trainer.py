"""transformers' Trainer on a small BERT with random weights: trains, evaluates, saves, and resumes from the middle.

    python trainer.py cpu|npu     # prints one line of JSON

The program names no device npu: transformers and accelerate detect it."""

import json
import os
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", WANDB_DISABLED="1")

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

DEVICE = sys.argv[1]
STEPS = 8


def samples(count, seed):
    """Sentences of class 1 begin with a word of high index."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(4, 60, (count, 10), generator=generator)
    seen = (torch.arange(10) < torch.randint(4, 11, (count, 1), generator=generator)).long()
    labels = (words[:, 0] > 30).long()
    return [dict(input_ids=w, attention_mask=s, labels=label) for w, s, label in zip(words * seen, seen, labels, strict=True)]


def make_trainer(folder):
    set_seed(1)
    sizes = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    # Random numbers differ between devices, so there is no dropout.
    config = BertConfig(**sizes, max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    arguments = TrainingArguments(
        folder,
        max_steps=STEPS,
        per_device_train_batch_size=8,
        learning_rate=5e-3,
        logging_steps=1,
        save_steps=STEPS // 2,
        report_to=[],
        use_cpu=DEVICE == "cpu",
        disable_tqdm=True,
        seed=1,
    )
    return Trainer(BertForSequenceClassification(config), arguments, train_dataset=samples(64, 1), eval_dataset=samples(16, 2))


def losses(trainer):
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


with tempfile.TemporaryDirectory() as folder:
    trainer = make_trainer(folder)
    trainer.train()
    assert trainer.args.device.type == next(trainer.model.parameters()).device.type == DEVICE
    again = make_trainer(folder)
    again.train(resume_from_checkpoint=os.path.join(folder, f"checkpoint-{STEPS // 2}"))
    result = {"losses": losses(trainer), "resumed": losses(again)[-STEPS // 2 :], "eval": trainer.evaluate()["eval_loss"]}
print(json.dumps(result))
