"""Hugging Face models: with softmax what eager attention gives, with sparse maps zeros where they belong."""

import copy

import pytest
import torch

transformers = pytest.importorskip("transformers")

from omegamax.integrations.transformers import alphas, learnable_alpha, register  # noqa: E402
from omegamax.nn import attention  # noqa: E402

register()
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
TEXT = {**SIZES, "vocab_size": 60, "max_position_embeddings": 64, "initializer_range": 0.25}
# All tokens are words: none of them ends a text or stands for padding.
SPECIAL = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
GROUPED = {**TEXT, **SPECIAL, "num_key_value_heads": 2, "head_dim": 8}
ENCODER_DECODER = {
    "vocab_size": 60, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64,
    "init_std": 0.25, "bos_token_id": None, "eos_token_id": None, "forced_eos_token_id": None, "pad_token_id": 0,
    "decoder_start_token_id": 1,
}  # fmt: skip
T5 = {
    "vocab_size": 60, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "initializer_factor": 1.5,
    "eos_token_id": None, "pad_token_id": 0, "decoder_start_token_id": 1, "relative_attention_num_buckets": 8,
}  # fmt: skip


def make(name):
    """A model with random weights, large enough for attention to matter."""
    hf = transformers
    models = {
        "bert": lambda: hf.BertModel(hf.BertConfig(**TEXT)),
        "vit": lambda: hf.ViTModel(hf.ViTConfig(**SIZES, image_size=16, patch_size=4, initializer_range=0.25)),
        "gpt2": lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=60, n_positions=64, n_embd=32, n_layer=2, n_head=4, initializer_range=0.25, **SPECIAL
            )
        ),
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)),
        "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**GROUPED, sliding_window=4)),
        "gemma2": lambda: hf.Gemma2ForCausalLM(
            hf.Gemma2Config(**GROUPED, sliding_window=4, attn_logit_softcapping=2.0, query_pre_attn_scalar=8)
        ),
        "gpt_oss": lambda: hf.GptOssForCausalLM(
            hf.GptOssConfig(**GROUPED, sliding_window=4, num_local_experts=2, num_experts_per_tok=1)
        ),
        "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**ENCODER_DECODER)),
        "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5)),
    }
    torch.manual_seed(0)
    model = models[name]().eval()
    if name == "gpt_oss":  # transformers leaves the sinks as they come from memory
        for layer in model.model.layers:
            torch.nn.init.normal_(layer.self_attn.sinks)
    return model


ENCODERS, DECODERS, BOTH = ("bert", "vit"), ("gpt2", "llama", "mistral", "gemma2", "gpt_oss"), ("bart", "t5")
every_model = pytest.mark.parametrize("name", [*ENCODERS, *DECODERS, *BOTH])
every_decoder = pytest.mark.parametrize("name", DECODERS)


def inputs(name, padded=True):
    """Three texts of which two are padded (on the right for encoders, on the left for decoders), and what is real."""
    generator = torch.Generator().manual_seed(1)
    if name == "vit":
        pixels = torch.randn(3, 3, 16, 16, generator=generator)
        return {"pixel_values": pixels}, torch.ones(3, 17, dtype=torch.bool)
    tokens = torch.randint(1, 60, (3, 9), generator=generator)
    real = torch.ones(3, 9, dtype=torch.bool)
    if padded and name in DECODERS:
        real[1, :3] = real[2, :5] = False
    elif padded:
        real[1, -3:] = real[2, -5:] = False
    given = {"input_ids": tokens.masked_fill(~real, 0), "attention_mask": real.long()}
    if name in BOTH:
        given["decoder_input_ids"] = torch.randint(1, 60, (3, 7), generator=generator)
        return given, torch.ones(3, 7, dtype=torch.bool)
    return given, real


def run(model, given, implementation, **options):
    model.set_attn_implementation(implementation)
    return model(**given, **options)


def hidden(output):
    return output.last_hidden_state if hasattr(output, "last_hidden_state") else output.logits


def weights(output):
    """Attention weights of every layer and kind, with the name of the kind."""
    kinds = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    return [(kind, p) for kind in kinds for p in getattr(output, kind, None) or ()]


@every_model
@pytest.mark.parametrize("padded", [False, True], ids=["all real", "padded"])
def test_softmax_is_what_eager_attention_gives(name, padded):
    model = make(name)
    given, real = inputs(name, padded)
    with torch.no_grad():
        eager, ours = (hidden(run(model, given, i)) for i in ("eager", "omegamax:softmax"))
        sparse = hidden(run(model, given, "omegamax:sparsemax"))
    torch.testing.assert_close(ours[real], eager[real], rtol=1e-5, atol=1e-5)
    assert (sparse[real] - eager[real]).abs().max() > 1e-2  # the name is not ignored


@every_model
def test_softmax_weights_are_those_of_eager_attention(name):
    model = make(name)
    given, real = inputs(name)
    with torch.no_grad():
        eager, ours = (
            weights(run(model, given, i, output_attentions=True)) for i in ("eager", "omegamax:softmax")
        )  # fmt: skip
    assert len(eager) == len(ours) >= 2
    for (kind, a), (_, b) in zip(eager, ours, strict=True):
        rows = real[:, None, :, None] if kind in ("attentions",) else torch.ones((), dtype=torch.bool)
        torch.testing.assert_close(b * rows, a * rows, rtol=1e-5, atol=1e-5)


@every_model
@pytest.mark.parametrize("transform", ["sparsemax", "entmax15", "entmax:1.3", "normmax:2"])
def test_sparse_weights_have_zeros_and_sum_to_one(name, transform):
    model = make(name)
    given, real = inputs(name)
    with torch.no_grad():
        found = weights(run(model, given, f"omegamax:{transform}", output_attentions=True))
        dense = weights(run(model, given, "omegamax:softmax", output_attentions=True))
    for (kind, p), (_, q) in zip(found, dense, strict=True):
        rows = real[:, None, :].expand(p.shape[:-1]) if kind == "attentions" else torch.ones(p.shape[:-1]).bool()
        assert (p[q == 0] == 0).all(), "a key that may not be seen has weight"
        if name != "gpt_oss":  # there a sink takes the rest
            torch.testing.assert_close(p[rows].sum(-1), torch.ones_like(p[rows].sum(-1)), rtol=0, atol=1e-5)
    seen = torch.cat([(p[q > 0] == 0).float() for (_, p), (_, q) in zip(found, dense, strict=True)])
    assert 0.05 < seen.mean() < 1


@pytest.mark.parametrize("name", ["bert", "llama", "bart", "t5"])
def test_padding_gets_no_weight_and_changes_nothing(name):
    model = make(name)
    given, _ = inputs(name)
    with torch.no_grad():
        out = run(model, given, "omegamax:entmax15", output_attentions=True)
        real = given["attention_mask"].bool()
        for kind, p in weights(out):
            if kind != "decoder_attentions":
                assert (p.movedim(-1, 1)[~real] == 0).all()
        # The second text alone, without its padding.
        alone = {"input_ids": given["input_ids"][1:2][real[1:2]][None]}
        if name in BOTH:
            alone["decoder_input_ids"] = given["decoder_input_ids"][1:2]
        if name == "llama":  # rotary positions are relative, so that the text may begin anywhere
            kept = hidden(out)[1][real[1]]
        else:
            kept = hidden(out)[1] if name in BOTH else hidden(out)[1][real[1]]
        torch.testing.assert_close(hidden(model(**alone))[0], kept, rtol=1e-4, atol=1e-4)


@every_decoder
def test_no_weight_on_what_comes_later_or_lies_outside_the_window(name):
    model = make(name)
    tokens = inputs(name, padded=False)[0]["input_ids"]
    with torch.no_grad():
        layers = run(model, {"input_ids": tokens}, "omegamax:entmax:1.2", output_attentions=True).attentions
    gap = torch.arange(9)[:, None] - torch.arange(9)
    sliding = {"mistral": [0, 1], "gemma2": [0], "gpt_oss": [0]}.get(name, [])
    for layer, p in enumerate(layers):
        assert (p[..., gap < 0] == 0).all()
        assert bool((p[..., gap >= 4] == 0).all()) == (layer in sliding)


@pytest.mark.parametrize("name", [*DECODERS, *BOTH])
@pytest.mark.parametrize("transform", ["softmax", "entmax15"])
def test_generate_gives_the_same_tokens_with_and_without_cache(name, transform):
    model = make(name)
    given, _ = inputs(name)
    given.pop("decoder_input_ids", None)
    greedy = {"max_new_tokens": 8, "do_sample": False}
    model.set_attn_implementation(f"omegamax:{transform}")
    cached = model.generate(**given, **greedy)
    assert cached.tolist() == model.generate(**given, **greedy, use_cache=False).tolist()
    model.set_attn_implementation("eager")
    same = cached.tolist() == model.generate(**given, **greedy).tolist()
    assert same or transform != "softmax"


def test_generate_returns_weights():
    model = make("llama")
    model.set_attn_implementation("omegamax:sparsemax")
    given, _ = inputs("llama")
    out = model.generate(
        **given, max_new_tokens=3, do_sample=False, output_attentions=True, return_dict_in_generate=True
    )
    assert [p[0].shape for p in out.attentions] == [(3, 4, 9, 9), (3, 4, 1, 10), (3, 4, 1, 11)]
    assert all(torch.allclose(p.sum(-1), torch.ones(())) for p in out.attentions[-1])


def test_static_cache_gives_the_same_tokens():
    model = make("llama")
    model.set_attn_implementation("omegamax:entmax15")
    given, _ = inputs("llama", padded=False)
    plain, static = (
        model.generate(**given, max_new_tokens=5, do_sample=False, cache_implementation=cache, disable_compile=True)
        for cache in (None, "static")
    )
    assert plain.tolist() == static.tolist()


@pytest.mark.parametrize("name", ["bert", "vit", "gpt2", "llama", "bart", "t5"])
def test_gradients_reach_every_query_and_alpha(name):
    model = learnable_alpha(make(name), start=1.2).train()
    given, _ = inputs(name)
    hidden(model(**given)).square().mean().backward()
    found = alphas(model)
    kinds = 3 if name in BOTH else 1
    assert len(found) == 2 * kinds and all(a.shape == (4,) for a in found.values())
    raw = {n: p for n, p in model.named_parameters() if n.endswith("omegamax.alpha.raw")}
    assert len(raw) == len(found) and all((p.grad != 0).all() for p in raw.values())
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


def test_alpha_learns():
    model = learnable_alpha(make("gpt2"))
    tokens = inputs("gpt2", padded=False)[0]["input_ids"]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(20):
        loss = model(tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    moved = torch.cat(list(alphas(model).values()))
    assert losses[-1] < losses[0] / 2
    assert (moved - 1.5).abs().max() > 1e-2 and ((moved > 1) & (moved < 2)).all()


@pytest.mark.parametrize("name", ["bert", "llama", "t5", "vit"])
def test_saving_and_loading_keeps_alpha(name, tmp_path):
    model = learnable_alpha(make(name))
    for p in (p for n, p in model.named_parameters() if n.endswith("alpha.raw")):
        torch.nn.init.normal_(p)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path).eval()
    assert again.config._attn_implementation == "omegamax:entmax:learnable"
    before, after = alphas(model), alphas(again)
    assert before.keys() == after.keys() and all(torch.equal(before[k], after[k]) for k in before)
    given, _ = inputs(name)
    with torch.no_grad():
        torch.testing.assert_close(hidden(again(**given)), hidden(model(**given)), rtol=1e-5, atol=1e-5)
    auto = transformers.AutoModel.from_pretrained(tmp_path)
    assert [a.tolist() for a in alphas(auto).values()] == [a.tolist() for a in before.values()]


def test_saving_and_loading_keeps_the_map(tmp_path):
    model = make("gpt2")
    model.set_attn_implementation("omegamax:entmax:1.3")
    model.save_pretrained(tmp_path)
    load = transformers.AutoModelForCausalLM.from_pretrained
    assert load(tmp_path).config._attn_implementation == "omegamax:entmax:1.3"
    assert load(tmp_path, attn_implementation="eager").config._attn_implementation == "eager"
    model.set_attn_implementation("eager")
    model.save_pretrained(tmp_path)
    assert not load(tmp_path).config._attn_implementation.startswith("omegamax")


def test_each_part_of_a_composite_model_keeps_its_map(tmp_path):
    config = transformers.CLIPConfig(
        text_config={**TEXT, **SPECIAL}, vision_config={**SIZES, "image_size": 16, "patch_size": 4}, projection_dim=8
    )
    model = transformers.CLIPModel(config)
    model.set_attn_implementation({"text_config": "omegamax:entmax15", "vision_config": "eager"})
    model.save_pretrained(tmp_path)
    again = transformers.CLIPModel.from_pretrained(tmp_path).config
    assert again.text_config._attn_implementation == "omegamax:entmax15"
    assert not again.vision_config._attn_implementation.startswith("omegamax")


def test_checkpoint_of_a_softmax_model_gets_alphas_in_the_middle(tmp_path):
    make("bert").save_pretrained(tmp_path)
    for kind, middle in (("entmax", 1.5), ("normmax", 2.0)):
        name = f"omegamax:{kind}:learnable"
        model = transformers.AutoModel.from_pretrained(tmp_path, attn_implementation=name)
        assert torch.allclose(torch.cat(list(alphas(model).values())), torch.tensor(middle))
        assert all(not p.is_meta for p in model.parameters())


def test_new_model_learns_alpha_by_name_alone():
    config = transformers.BertConfig(**TEXT, attn_implementation="omegamax:entmax:learnable")
    model = transformers.BertForSequenceClassification(config)
    assert [a.tolist() for a in alphas(model).values()] == [[1.5] * 4] * 2
    copied = copy.deepcopy(model)
    assert sorted(alphas(copied)) == sorted(alphas(model))


def test_name_is_refused_where_nobody_registered_it(tmp_path, monkeypatch):
    model = make("bert")
    model.set_attn_implementation("omegamax:entmax15")
    model.save_pretrained(tmp_path)
    interface = transformers.AttentionInterface
    known = {name: function for name, function in interface._global_mapping.items() if "omegamax" not in name}
    monkeypatch.setattr(interface, "_global_mapping", known)
    with pytest.raises(ValueError, match="omegamax:entmax15"):
        transformers.BertModel.from_pretrained(tmp_path)


def test_learnable_name_without_alphas_says_what_to_call():
    model = make("bert")
    given, _ = inputs("bert")
    with pytest.raises(RuntimeError, match="learnable_alpha"):
        run(model, given, "omegamax:entmax:learnable")


@pytest.mark.parametrize("name", ["nomax", "sparsemax:2", "entmax:many", "nomax:2"])
def test_unknown_map_is_an_error(name):
    with pytest.raises(ValueError, match=name.split(":")[0]):
        register(name)


def test_further_maps_can_be_registered():
    register("k_subsets:2", "omegamax:entmax:1.125")
    model = make("bert")
    given, _ = inputs("bert", padded=False)
    with torch.no_grad():
        p = run(model, given, "omegamax:k_subsets:2", output_attentions=True).attentions[0]
        run(model, given, "omegamax:entmax:1.125")
    torch.testing.assert_close(p.sum(-1), torch.full_like(p[..., 0], 2.0))


def test_learnable_alpha_of_an_unknown_map_is_an_error():
    with pytest.raises(ValueError, match="sparsemax"):
        learnable_alpha(make("bert"), map="sparsemax")


def test_model_outside_the_interface_is_refused():
    class OwnAttention(torch.nn.Module):
        def forward(self, x):
            return x

    class Own(transformers.PreTrainedModel):
        config_class = transformers.BertConfig

        def __init__(self, config):
            super().__init__(config)
            self.layer = OwnAttention()
            self.post_init()

    dense = Own(transformers.BertConfig(**TEXT))
    with pytest.raises(ValueError, match="no layer of Own"):
        learnable_alpha(dense)
    with pytest.raises(ValueError, match="AttentionInterface"):
        Own(transformers.BertConfig(**TEXT, attn_implementation="omegamax:entmax15"))


def test_float_mask_of_the_caller_is_added_and_its_lowest_value_forbids():
    model = make("llama")
    tokens = inputs("llama", padded=False)[0]["input_ids"]
    least = torch.finfo(torch.float32).min
    mask = torch.randn(3, 1, 9, 9).masked_fill(torch.ones(9, 9).triu(1).bool(), least)
    mask[:, :, 3:, 1] = least
    with torch.no_grad():
        eager, ours = (
            run(model, {"input_ids": tokens, "attention_mask": mask}, i, output_attentions=True)
            for i in ("eager", "omegamax:softmax")
        )
    torch.testing.assert_close(ours.logits, eager.logits, rtol=1e-5, atol=1e-5)
    assert all((p[:, :, 3:, 1] == 0).all() for p in ours.attentions)


def test_weights_are_left_out_when_nobody_asks(monkeypatch):
    pytest.importorskip("transformers.utils.output_capturing", reason="this version does not tell who asks")
    asked = []

    def spy(*args, **options):
        asked.append(options.get("return_weights", False))
        return attention(*args, **options)

    monkeypatch.setattr("omegamax.integrations._layer.attention", spy)
    model = make("llama")
    given, _ = inputs("llama")
    run(model, given, "omegamax:entmax15")
    assert asked == [False, False]
    run(model, given, "omegamax:entmax15", output_attentions=True)
    assert asked[2:] == [True, True]


def test_weights_are_left_out_when_a_layer_is_computed_again(monkeypatch):
    pytest.importorskip("transformers.utils.output_capturing", reason="this version does not tell who asks")
    asked = []

    def spy(*args, **options):
        asked.append(options.get("return_weights", False))
        return attention(*args, **options)

    monkeypatch.setattr("omegamax.integrations._layer.attention", spy)
    model = make("llama").train()
    model.set_attn_implementation("omegamax:entmax15")
    tokens = inputs("llama", padded=False)[0]["input_ids"]
    model(tokens, labels=tokens).loss.backward()
    wanted = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.gradient_checkpointing_enable()
    model(tokens, labels=tokens, use_cache=False).loss.backward()
    assert len(asked) == 6 and not any(asked)
    torch.testing.assert_close([p.grad for p in model.parameters()], wanted)


def test_half_precision_runs_and_stays_near():
    model = make("llama")
    given, real = inputs("llama")
    with torch.no_grad():
        full = hidden(run(model, given, "omegamax:entmax15"))
        half = hidden(run(model.bfloat16(), given, "omegamax:entmax15"))
    assert half.dtype == torch.bfloat16
    assert (half.float() - full)[real].abs().mean() < 0.1 * full[real].abs().mean()


@pytest.mark.parametrize("learnt", [False, True], ids=["entmax15", "learnable"])
def test_model_compiles_to_one_graph(learnt):
    model = make("llama")
    learnable_alpha(model) if learnt else model.set_attn_implementation("omegamax:entmax15")
    tokens = inputs("llama", padded=False)[0]["input_ids"]
    with torch.no_grad():
        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)(tokens)
        torch.testing.assert_close(compiled.logits, model(tokens).logits, rtol=1e-4, atol=1e-4)
