"""Models as ONNX graphs, which run where there is neither PyTorch nor this package."""
