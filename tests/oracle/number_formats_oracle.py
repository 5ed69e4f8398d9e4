"""Floats of 8 and 4 bits against ml_dtypes and ONNX's own conversion: every code, and every float16 into each format."""
import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.numpy_helper import saturate_cast, to_float8e8m0

from common import Oracle, save

FORMATS = {"FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
           "FLOAT8E5M2": ml_dtypes.float8_e5m2, "FLOAT8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
           "FLOAT4E2M1": ml_dtypes.float4_e2m1fn, "FLOAT8E8M0": ml_dtypes.float8_e8m0fnu}
HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)


def model(oracle, nodes, source, target, size, name):
    return save(oracle.folder / f"{name}.onnx", nodes, [("x", source, [size])], [("y", target, [size])], {}, opset=26,
                ir_version=13)


def codes(oracle, values, number, **attributes):
    """The codes that Cast makes of float32 values, as bytes."""
    target = getattr(TensorProto, number)
    nodes = [helper.make_node("Cast", ["x"], ["c"], to=target, **attributes)]
    if number == "FLOAT4E2M1":  # two a byte: seen through its values, whose signs tell -0 from 0
        nodes.append(helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT))
        path = model(oracle, nodes, TensorProto.FLOAT, TensorProto.FLOAT, len(values), "to")
    else:
        nodes.append(helper.make_node("BitCast", ["c"], ["y"], to=TensorProto.UINT8))
        path = model(oracle, nodes, TensorProto.FLOAT, TensorProto.UINT8, len(values), "to")
    got = oracle.outputs(path, {"x": values})["y"]
    return got.astype(FORMATS[number]).view(np.uint8) if number == "FLOAT4E2M1" else got


def check_codes(oracle, what, values, want, got):
    wrong = np.flatnonzero(want != got)
    oracle.check(what, len(wrong) == 0,
                 f"{len(wrong)} differ: {[(values[i], want[i], got[i]) for i in wrong[:4]]}")


def check_values(oracle, number, dtype):
    """Every code of 8 bits, decoded."""
    nodes = [helper.make_node("BitCast", ["x"], ["c"], to=getattr(TensorProto, number)),
             helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT)]
    path = model(oracle, nodes, TensorProto.UINT8, TensorProto.FLOAT, 256, "from")
    got = oracle.outputs(path, {"x": np.arange(256, dtype=np.uint8)})["y"]
    want = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    oracle.check(f"{number}: values", same.all(), np.flatnonzero(~same))


def check_rounding(oracle, number, dtype):
    # All of float16, which has every boundary between two codes, and numbers of any size. float4 has no NaN: ml_dtypes
    # makes the zero of the other sign of it, we make -0.
    random = np.random.default_rng(1)
    wide = np.ldexp(random.standard_normal(20000), random.integers(-150, 125, 20000)).astype(np.float32)
    values = np.concatenate([HALVES.astype(np.float32), wide])
    if number == "FLOAT4E2M1":
        values = values[~(np.isnan(values) & np.signbit(values))]
    with np.errstate(all="ignore"):
        check_codes(oracle, f"{number}: saturated", values, saturate_cast(values, dtype).view(np.uint8),
                    codes(oracle, values, number))
        check_codes(oracle, f"{number}: not saturated", values, values.astype(dtype).view(np.uint8),
                    codes(oracle, values, number, saturate=0))


def check_powers(oracle):
    """E8M0 where ONNX defines it and its reference rounds right: positive float32 that is not subnormal."""
    random = np.random.default_rng(2)
    values = np.ldexp(random.uniform(1, 2, 20000), random.integers(-126, 127, 20000)).astype(np.float32)
    values = np.concatenate([values, np.ldexp(1.0, np.arange(-126, 128)), np.ldexp(1.5, np.arange(-126, 128))])
    values = values.astype(np.float32)
    for mode in ("up", "down", "nearest"):
        for saturate in (0, 1):
            want = to_float8e8m0(values, bool(saturate), mode).view(np.uint8)
            check_codes(oracle, f"FLOAT8E8M0: {mode}, saturate {saturate}", values, want,
                        codes(oracle, values, "FLOAT8E8M0", round_mode=mode, saturate=saturate))


def main():
    oracle = Oracle()
    for number, dtype in FORMATS.items():
        if number != "FLOAT4E2M1":
            check_values(oracle, number, dtype)
        if number != "FLOAT8E8M0":
            check_rounding(oracle, number, dtype)
    check_powers(oracle)
    oracle.finish()


main()
