"""ONNX Runtime's quantize_static as its users run it: int8 weights by channel, uint8 activations, MinMax.
Usage: quantize_static.py MODEL FOLDER_OF_NPZ OUT (run where it may leave a file)
"""
import pathlib
import sys

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process


class Reader(CalibrationDataReader):
    def __init__(self, folder):
        self.paths = iter(sorted(pathlib.Path(folder).glob("*.npz")))

    def get_next(self):
        path = next(self.paths, None)
        return None if path is None else dict(np.load(path))


def main():
    model, samples, out = sys.argv[1:]
    prepared = out + ".prepared.onnx"
    try:
        quant_pre_process(model, prepared)
    except Exception:  # it fails on models with open dimensions that it can't follow
        prepared = model
    quantize_static(prepared, out, Reader(samples), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


main()
