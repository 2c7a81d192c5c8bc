"""transformers' Trainer on a small BERT with random weights, in one process or on the ranks of torchrun.

    python trainer_ranks.py cpu
    torchrun --nproc-per-node 2 trainer_ranks.py npu     # rank 0 prints one line of JSON

The program does not name npu: transformers and accelerate detect it."""

import json
import os
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", WANDB_DISABLED="1")

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

DEVICE, WORLD = sys.argv[1], int(os.environ.get("WORLD_SIZE", "1"))

set_seed(1)
generator = torch.Generator().manual_seed(1)
words = torch.randint(4, 60, (64, 10), generator=generator)
data = [dict(input_ids=w, attention_mask=torch.ones_like(w), labels=(w[0] > 30).long()) for w in words]
sizes = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
# Random numbers differ between devices, so there is no dropout.
config = BertConfig(**sizes, max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        max_steps=8,
        per_device_train_batch_size=8 // WORLD,
        learning_rate=5e-3,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=DEVICE == "cpu",
        disable_tqdm=True,
        seed=1,
    )
    trainer = Trainer(BertForSequenceClassification(config), arguments, train_dataset=data, eval_dataset=data[:16])
    trainer.train()
    assert trainer.args.device.type == DEVICE and trainer.args.world_size == WORLD
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    result = {"losses": losses, "weights": {"eval": trainer.evaluate()["eval_loss"]}}
if trainer.is_world_process_zero():
    print(json.dumps(result))
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
