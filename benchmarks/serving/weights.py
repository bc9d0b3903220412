#!/usr/bin/env python3
"""Writes a GGUF file of random weights in the architecture of Llama, with a made-up vocabulary, for llama-server.

  benchmarks/serving/weights.py [--size=1b|tiny] [--seed=N] FILE

The script needs llama.cpp's Python package gguf, and NumPy. The model's words mean nothing; it takes the time of a
real model. It never chooses a control token or a byte, whose rows of the output are zero, so each token is a piece
of text of its own.
"""
import argparse
import itertools
import os
import string
import sys

import gguf
import numpy

# Heads have 64 elements: width / heads.
SIZES = {"1b": {"width": 2048, "layers": 16, "heads": 32, "kv_heads": 8, "inner": 8192, "vocabulary": 32000, "context": 32768},
         "tiny": {"width": 256, "layers": 2, "heads": 4, "kv_heads": 2, "inner": 512, "vocabulary": 1024, "context": 8192}}
# standard deviations: of all tensors but the embedding, and of the embedding. With a smaller one all prompts would get
# the same answer
SPREAD, WORDS = 0.02, 1.0
CONTROL = [("<unk>", gguf.TokenType.UNKNOWN), ("<s>", gguf.TokenType.CONTROL), ("</s>", gguf.TokenType.CONTROL)]
SPECIAL = len(CONTROL) + 256


def vocabulary(count):
    """Tokens, scores and types in SentencePiece's form: control tokens, the bytes, then words of letters, the short
    ones first."""
    words = ("\N{LOWER ONE EIGHTH BLOCK}" * start + "".join(letters) for length in itertools.count(1) for start in (0, 1)
             for letters in itertools.product(string.ascii_lowercase, repeat=length))
    tokens = [name for name, _ in CONTROL] + [f"<0x{byte:02X}>" for byte in range(256)] + list(itertools.islice(words, count - SPECIAL))
    types = [kind for _, kind in CONTROL] + [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * (count - SPECIAL)
    return tokens, [0.0] * SPECIAL + [-float(rank) for rank in range(count - SPECIAL)], types


def shapes(size):
    """Name and shape of each tensor. Tensors of one dimension are norms."""
    width, inner = size["width"], size["inner"]
    narrow = width // size["heads"] * size["kv_heads"]
    yield "token_embd.weight", (size["vocabulary"], width)
    for layer in range(size["layers"]):
        for name, shape in (("attn_norm", (width,)), ("attn_q", (width, width)), ("attn_k", (narrow, width)), ("attn_v", (narrow, width)),
                            ("attn_output", (width, width)), ("ffn_norm", (width,)), ("ffn_gate", (inner, width)), ("ffn_up", (inner, width)),
                            ("ffn_down", (width, inner))):
            yield f"blk.{layer}.{name}.weight", shape
    yield "output_norm.weight", (width,)
    yield "output.weight", (size["vocabulary"], width)


def tensor(source, name, shape):
    if len(shape) == 1:
        return numpy.ones(shape, numpy.float32)
    values = source.standard_normal(shape, numpy.float32)
    values *= WORDS if name == "token_embd.weight" else SPREAD
    if name == "output.weight":
        values[:SPECIAL] = 0
    return values.astype(numpy.float16)


def describe(writer, size):
    writer.add_name("random")
    writer.add_context_length(size["context"])
    writer.add_embedding_length(size["width"])
    writer.add_block_count(size["layers"])
    writer.add_feed_forward_length(size["inner"])
    writer.add_head_count(size["heads"])
    writer.add_head_count_kv(size["kv_heads"])
    writer.add_rope_dimension_count(size["width"] // size["heads"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(size["vocabulary"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    tokens, scores, types = vocabulary(size["vocabulary"])
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def write(path, size, seed):
    """Writes one tensor at a time, so the file may be larger than the memory. Returns the number of parameters."""
    writer = gguf.GGUFWriter(path, "llama")
    describe(writer, size)
    count = 0
    for name, shape in shapes(size):
        kind = numpy.dtype(numpy.float32 if len(shape) == 1 else numpy.float16)
        elements = int(numpy.prod(shape))
        writer.add_tensor_info(name, shape, kind, elements * kind.itemsize)
        count += elements
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    source = numpy.random.default_rng(seed)
    for name, shape in shapes(size):
        writer.write_tensor_data(tensor(source, name, shape))
    writer.close()
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=list(SIZES), default="1b")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("file")
    arguments = parser.parse_args()
    count = write(arguments.file + ".part", SIZES[arguments.size], arguments.seed)
    os.replace(arguments.file + ".part", arguments.file)  # the rename makes sure that a file of this name is complete
    print(f"{arguments.file}: {count / 1e6:.1f} M parameters, {os.path.getsize(arguments.file) / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
