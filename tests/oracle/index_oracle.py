"""Operators that select, order, scatter and sum by index, on random shapes and attributes, against ONNX Runtime."""
import numpy as np
import onnx
from onnx import TensorProto, helper

from common import Oracle, answers, save, session

KINDS = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE, np.int64: TensorProto.INT64,
         np.int32: TensorProto.INT32, np.bool_: TensorProto.BOOL, np.float16: TensorProto.FLOAT16,
         np.uint8: TensorProto.UINT8}
ROUNDS = 12
random = np.random.default_rng(23)


def shape(rank_from=1, rank_to=4, low=1):
    return [int(d) for d in random.integers(low, 6, random.integers(rank_from, rank_to + 1))]


def few_values(dims, dtype):
    """With equal elements among them."""
    return random.integers(-3 if np.dtype(dtype).kind != "u" else 0, 4, dims).astype(dtype)


def pick(*choices):
    return choices[random.integers(0, len(choices))]


def compare(oracle, what, op, feeds, outputs, tolerance=0.0, opset=21, **attributes):
    """`outputs` are element types of numpy; `feeds` are in the order of the inputs."""
    names = [f"y{i}" for i in range(len(outputs))]
    node = helper.make_node(op, list(feeds), names, **attributes)
    inputs = [(name, KINDS[value.dtype.type], list(value.shape)) for name, value in feeds.items()]
    path = save(oracle.folder / "op.onnx", [node], inputs, [(n, KINDS[t], None) for n, t in zip(names, outputs)], {},
                opset=opset)
    described = f"{what}: {op} {attributes} {[(n, v.dtype.name, v.shape) for n, v in feeds.items()]}"
    try:
        want, got = answers(session(path), feeds), oracle.outputs(path, feeds)
    except Exception as e:
        return oracle.check(described, False, str(e)[:300])
    for name in names:
        w, g = want[name], got[name]
        same = w.shape == g.shape and w.dtype == g.dtype and np.allclose(w, g, rtol=tolerance, atol=tolerance,
                                                                          equal_nan=True)
        oracle.check(f"{described} {name}", same, f"{w.shape} {g.shape}\n{w}\n{g}"[:800])


def axis_of(dims):
    return int(random.integers(-len(dims), len(dims)))


def top_k(oracle):
    for _ in range(ROUNDS):
        dims = shape()
        axis = axis_of(dims)
        x = few_values(dims, pick(np.float32, np.int64, np.float64, np.int32))
        k = np.array([random.integers(0, dims[axis] + 1)], np.int64)
        compare(oracle, "ties", "TopK", {"x": x, "k": k}, [x.dtype.type, np.int64], axis=axis,
                largest=int(random.integers(0, 2)))


def unique(oracle):
    for _ in range(ROUNDS):
        dims = shape(low=2)
        x = few_values(dims, pick(np.float32, np.int64, np.float64))
        options = pick({}, {"axis": axis_of(dims)})
        compare(oracle, "few values", "Unique", {"x": x}, [x.dtype.type] + [np.int64] * 3,
                sorted=int(random.integers(0, 2)), **options)


def scatters(oracle):
    for _ in range(ROUNDS):
        dims = shape()
        axis = axis_of(dims)
        x = few_values(dims, pick(np.float32, np.int32, np.float64))
        reduction = pick("none", "add", "mul", "max", "min")
        places = [int(random.integers(1, d + 1)) for d in dims]
        if reduction == "none":  # without duplicates, whose order ONNX leaves open
            rows = np.argsort(random.random([dims[axis] if i == axis % len(dims) else p for i, p in enumerate(places)]), axis)
            indices = np.take(rows, range(min(places[axis], dims[axis])), axis)
        else:
            indices = random.integers(-dims[axis], dims[axis], places)
        updates = few_values(indices.shape, x.dtype)
        compare(oracle, "at random", "ScatterElements", {"x": x, "i": indices.astype(np.int64), "u": updates},
                [x.dtype.type], axis=axis, reduction=reduction)
        depth = int(random.integers(1, len(dims) + 1))
        count = 1 if reduction == "none" else int(random.integers(1, 5))
        vectors = np.stack([random.integers(-d, d, [count]) for d in dims[:depth]], -1).astype(np.int64)
        updates = few_values([count] + dims[depth:], x.dtype)
        compare(oracle, "at random", "ScatterND", {"x": x, "i": vectors, "u": updates}, [x.dtype.type],
                reduction=reduction)


def cumulative(oracle):
    for _ in range(ROUNDS):
        dims = shape()
        x = few_values(dims, pick(np.float32, np.int64, np.float64, np.int32))
        compare(oracle, "sums", "CumSum", {"x": x, "axis": np.array(axis_of(dims), np.int64)}, [x.dtype.type],
                exclusive=int(random.integers(0, 2)), reverse=int(random.integers(0, 2)))


def selection(oracle):
    for _ in range(ROUNDS):
        dims = shape()
        x = few_values(dims, pick(np.float32, np.int64, np.bool_))
        compare(oracle, "not 0", "NonZero", {"x": x}, [np.int64])
        axis = axis_of(dims)
        length = int(random.integers(1, dims[axis] + 1))
        compare(oracle, "by axis", "Compress", {"x": x, "c": random.random(length) < 0.5}, [x.dtype.type], axis=axis)
        compare(oracle, "flat", "Compress", {"x": x, "c": random.random(x.size) < 0.5}, [x.dtype.type])
        depth = int(random.integers(1, 6))
        compare(oracle, "indices", "OneHot",
                {"i": random.integers(-depth, depth, dims), "d": np.array([depth], np.int64),
                 "v": np.array([2, 5], np.float32)}, [np.float32], axis=int(random.integers(-len(dims) - 1, len(dims) + 1)))


def matrices(oracle):
    for _ in range(ROUNDS):
        dims = shape(2, 4)
        x = few_values(dims, pick(np.float32, np.int64))
        compare(oracle, "triangles", "Trilu", {"x": x, "k": np.array(random.integers(-7, 8), np.int64)}, [x.dtype.type],
                upper=int(random.integers(0, 2)))
        compare(oracle, "ones", "EyeLike", {"x": x.reshape(dims[0], -1)}, [np.float32], k=int(random.integers(-7, 8)), dtype=1)
        batch, n = shape(0, 2), int(random.integers(1, 6))
        compare(oracle, "random", "Det", {"x": random.standard_normal(batch + [n, n]).astype(np.float32)}, [np.float32], 1e-4)
        for p in (1, 2):
            compare(oracle, "random", "LpNormalization", {"x": random.standard_normal(dims).astype(np.float32)},
                    [np.float32], 1e-5, axis=axis_of(dims), p=p)
        steps, samples = dims[0], dims[1]
        lengths = random.integers(1, steps + 1, samples).astype(np.int64)
        compare(oracle, "random", "ReverseSequence", {"x": x, "n": lengths}, [x.dtype.type], time_axis=0, batch_axis=1)


EQUATIONS = ["ij,jk->ik", "ij,jk", "ij->ji", "ij->", "ii->i", "ii", "ij,ij->ij", "ij,ij->", "i,j->ij", "i,i->",
             "bij,bjk->bik", "bij,bkj->bki", "bhqd,bhkd->bhqk", "bhqk,bhkd->bqhd", "bqhd,bkhd->bhqk", "...ij,...jk->...ik",
             "...ij->...ji", "i...,i...->...", "ij,jk,kl->il", "ij,kj,lk->li", "a,b,c->cba", "bijc,bckd->bijkd",
             "iij,jk->ik", "abc,cd->abd", "ab,b->a", "ba,b->", "bii->bi", "...,...->..."]


def einsum(oracle):
    for equation in EQUATIONS * 3:
        sizes = {c: int(random.integers(1, 7)) for c in "abcdefghijklmnopqrstuvwxyz"}
        extra = [int(d) for d in random.integers(1, 4, random.integers(0, 3))]
        dtype = pick(np.float32, np.float32, np.float64, np.int64, np.int32)
        feeds = {}
        for n, term in enumerate(equation.split("->")[0].split(",")):
            dims = []
            for part in term.replace("...", "."):
                dims += extra if part == "." else [sizes[part]]
            feeds[f"x{n}"] = few_values(dims, dtype)
        compare(oracle, "small", "Einsum", feeds, [dtype], 1e-5, equation=equation)


def main():
    oracle = Oracle()
    for part in (top_k, unique, scatters, cumulative, selection, matrices, einsum):
        part(oracle)
    oracle.finish()


main()
