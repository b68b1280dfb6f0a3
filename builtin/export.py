"""Writes a trained checkpoint as GGUF: `python3 builtin/export.py --work DIR --name model --out builtin/builtin.gguf`.

Uses the gguf package of the fetched llama.cpp tree. Weight matrices become F16, vectors stay F32. The output matrix is the
embedding, so the file omits it.
"""

import argparse
import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "vendor", "llama.cpp", "gguf-py"))

import gguf  # noqa: E402

import template  # noqa: E402
import tokenizer as bpe  # noqa: E402

CONTEXT = 4096


def write_vocabulary(writer, tokenizer):
    kinds = [gguf.TokenType.NORMAL] * len(tokenizer.tokens)
    for text in template.CONTROL_TOKENS:
        kinds[tokenizer.specials[text]] = gguf.TokenType.CONTROL
    for text in template.MARKER_TOKENS:
        kinds[tokenizer.specials[text]] = gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokenizer.tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer.merges])
    writer.add_bos_token_id(tokenizer.specials[template.END_OF_TEXT])
    writer.add_eos_token_id(tokenizer.specials[template.IM_END])
    writer.add_eot_token_id(tokenizer.specials[template.IM_END])
    writer.add_pad_token_id(tokenizer.specials[template.END_OF_TEXT])
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_chat_template(template.CHAT_TEMPLATE)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True)
    parser.add_argument("--name", default="model")
    parser.add_argument("--out", default=os.path.join(HERE, "builtin.gguf"))
    options = parser.parse_args()
    saved = torch.load(os.path.join(options.work, options.name + ".pt"), map_location="cpu")
    tokenizer = bpe.Tokenizer.load(os.path.join(options.work, "tokenizer.json"))
    shape, weights = saved["shape"], saved["weights"]
    part = options.out + ".part"
    writer = gguf.GGUFWriter(part, "llama")
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name("Recua builtin")
    writer.add_description("A very small chat model that shows that the service works. Trained from generated text.")
    writer.add_author("Recua contributors")
    writer.add_license("mit")
    writer.add_languages(["en"])
    writer.add_size_label(f"{sum(weight.numel() for weight in weights.values()) / 1e6:.1f}M")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape["width"])
    writer.add_block_count(shape["layers"])
    writer.add_feed_forward_length(shape["hidden"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["heads"])
    writer.add_rope_dimension_count(shape["width"] // shape["heads"])
    writer.add_rope_freq_base(shape["rope_base"])
    writer.add_layer_norm_rms_eps(shape["epsilon"])
    writer.add_vocab_size(shape["vocab"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    write_vocabulary(writer, tokenizer)

    def add(name, weight):
        writer.add_tensor(name, weight.half().numpy() if weight.ndim == 2 else weight.float().numpy())

    add("token_embd.weight", weights["embedding.weight"])
    for at in range(shape["layers"]):
        source, target = f"blocks.{at}.", f"blk.{at}."
        add(target + "attn_norm.weight", weights[source + "attn_norm.weight"])
        add(target + "attn_q.weight", weights[source + "wq.weight"])
        add(target + "attn_k.weight", weights[source + "wk.weight"])
        add(target + "attn_v.weight", weights[source + "wv.weight"])
        add(target + "attn_output.weight", weights[source + "wo.weight"])
        add(target + "ffn_norm.weight", weights[source + "ffn_norm.weight"])
        add(target + "ffn_gate.weight", weights[source + "gate.weight"])
        add(target + "ffn_up.weight", weights[source + "up.weight"])
        add(target + "ffn_down.weight", weights[source + "down.weight"])
    add("output_norm.weight", weights["norm.weight"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(part, options.out)
    print(options.out, os.path.getsize(options.out), "bytes")


if __name__ == "__main__":
    main()
