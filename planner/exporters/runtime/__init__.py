"""What an exported bundle carries: plain `torch.distributed`, no other dependency."""
