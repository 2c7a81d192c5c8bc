"""Language models of transformers, tiny and with random weights."""

import pytest
import torch

from tests.models.training import adamw, assert_no_fallback, check_training, needs

pytestmark = pytest.mark.full

SIZES = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
NETS = {
    "bert": ("BertForMaskedLM", "BertConfig", {**SIZES, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}),
    "gpt2": (
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
        | dict.fromkeys(["resid_pdrop", "embd_pdrop", "attn_pdrop"], 0.0),
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 32}),
    "t5": (
        "T5ForConditionalGeneration",
        "T5Config",
        {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0},
    ),
}
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", NETS)
def test_language_models(name, attention):
    transformers = needs("transformers")
    model, config, options = NETS[name]
    if name == "t5":
        options = {**options, "decoder_start_token_id": 0}
    configuration = getattr(transformers, config)(**options, **SPECIAL, attn_implementation=attention)
    tokens = torch.randint(3, 64, (2, 12), generator=torch.Generator().manual_seed(1))
    seen = torch.arange(12) < torch.tensor([[12], [8]])

    def loss(net, ids, mask):
        result = net(input_ids=ids, attention_mask=mask, labels=ids.masked_fill(~mask.bool(), -100))
        return result.loss, result.logits

    make = getattr(transformers, model)
    _, npu = check_training(lambda: make(configuration), (tokens * seen, seen.long()), loss, adamw)
    assert npu.device.type == "npu"


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_greedy_generation(name):
    transformers = needs("transformers")
    model, config, options = NETS[name]
    options = {**options, "decoder_start_token_id": 0} if name == "t5" else options
    torch.manual_seed(0)
    net = getattr(transformers, model)(getattr(transformers, config)(**options, **SPECIAL)).eval()
    tokens = torch.randint(3, 64, (2, 5), generator=torch.Generator().manual_seed(1))
    wanted = net.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=8, do_sample=False)
    net.to("npu")
    torch.npu.reset_fallback_stats()
    found = net.generate(tokens.npu(), attention_mask=torch.ones_like(tokens).npu(), max_new_tokens=8, do_sample=False)
    assert_no_fallback()
    assert torch.equal(found.cpu(), wanted)
