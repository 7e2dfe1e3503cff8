"""The model of pytorch/pytorch#106080: 6 encoder and 6 decoder layers of d_model 8192, in bf16."""
import torch


def build_step(d_model=8192, nhead=64, layers=6, feedforward=2048, batch=4, seq=128):
    model = torch.nn.Transformer(d_model, nhead, layers, layers, feedforward, dropout=0.0, batch_first=True,
                                 dtype=torch.bfloat16)
    inputs = {name: torch.zeros(batch, seq, d_model, dtype=torch.bfloat16) for name in ("src", "tgt", "target")}

    def loss(module, src, tgt, target):
        return torch.nn.functional.mse_loss(module(src, tgt).float(), target.float())
    return model, inputs, loss
