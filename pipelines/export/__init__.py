"""Export the model of a run for other programs: as ONNX, as plain scikit-learn, or as arrays."""
