"""GPUs and NVIDIA's GPU Operator."""
