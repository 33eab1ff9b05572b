#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# gpu_peers.py attention|gpt2 - what torch takes on this GPU for what tests/gpu measures; run by gpu_check.sh.
#
#   attention   causal attention of 64 x 12 heads, 1024 positions, 64 wide, bfloat16, by cuDNN and by torch's flash kernels:
#               forward and backward, milliseconds
#   gpt2        GPT-2 124M, 64 x 1024 tokens, bfloat16 autocast, torch.compile, fused AdamW: tokens per second
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

BATCH, TIME, HEADS, WIDTH, LAYERS, PADDED = 64, 1024, 12, 768, 12, 50304


def best_ms(call, times=10):
    call()
    best = math.inf
    for _ in range(5):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(times):
            call()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begun) / times * 1e3)
    return best


def attention():
    q, k, v = (torch.randn(BATCH, HEADS, TIME, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    dout = torch.randn_like(q)
    for name, backend in (("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash", SDPBackend.FLASH_ATTENTION)):
        try:
            with sdpa_kernel(backend):
                forward = best_ms(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
                out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                backward = best_ms(lambda: torch.autograd.grad(out, (q, k, v), dout, retain_graph=True))
        except RuntimeError as error:
            print(f"skipped torch_attention_{name}: {str(error).splitlines()[0]}")
            continue
        print(f"row torch_attention_{name} {forward + backward:.3f} ms  forward {forward:.3f}, backward {backward:.3f}")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.qkv, self.proj = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.fc, self.fcproj = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (part.view(-1, TIME, HEADS, 64).transpose(1, 2) for part in self.qkv(self.ln1(x)).split(WIDTH, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.proj(y)
        return x + self.fcproj(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt2(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = torch.nn.Embedding(PADDED, WIDTH), torch.nn.Embedding(TIME, WIDTH)
        self.blocks, self.lnf = torch.nn.ModuleList(Block() for _ in range(LAYERS)), torch.nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(TIME, device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy((self.lnf(x) @ self.wte.weight.t()).view(-1, PADDED), targets.view(-1))


def gpt2():
    torch.set_float32_matmul_precision("high")
    model = Gpt2().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    compiled = torch.compile(model)
    tokens = torch.randint(0, 50257, (BATCH, TIME + 1), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = compiled(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(3):
        step()
    ms = best_ms(step, 5)
    print(f"row torch_gpt2 {BATCH * TIME / ms * 1e3:.0f} tokens/s  {ms:.1f} ms a step, torch {torch.__version__}")


if __name__ == "__main__":
    {"attention": attention, "gpt2": gpt2}[sys.argv[1]]()
