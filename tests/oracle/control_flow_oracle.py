"""If, Loop, Scan and model functions against ONNX Runtime: bodies in bodies, captured values, carried and scanned
values, loops of no iteration, functions in functions. The limit is a relative RMS of 1e-6."""
import numpy as np
import onnx
from onnx import parser

from common import Oracle, answers, relative_rms, session

RANDOM = np.random.default_rng(5)
HEAD = '<ir_version: 10, opset_import: ["" : {opset}{more}]>\n'


def normal(*dims):
    return RANDOM.standard_normal(dims).astype(np.float32)


def flag(value):
    return np.array(value, bool)


def count(value):
    return np.array(value, np.int64)


def compare(oracle, what, text, samples, opset=17, more=""):
    model = parser.parse_model(HEAD.format(opset=opset, more=more) + text)
    path = oracle.folder / "model.onnx"
    onnx.save(model, path)
    reference = session(path)
    for i, feeds in enumerate(samples):
        want = answers(reference, feeds)
        try:
            got = oracle.outputs(path, feeds)
        except RuntimeError as error:
            oracle.check(f"{what}, sample {i}", False, str(error)[-300:])
            continue
        if not oracle.check(f"{what}, sample {i}: outputs", got.keys() == want.keys(), f"{list(got)} for {list(want)}"):
            continue
        same = all(got[n].dtype == want[n].dtype and got[n].shape == want[n].shape for n in want)
        if oracle.check(f"{what}, sample {i}: types and dims", same, str([(n, got[n].shape, want[n].shape, got[n].dtype) for n in want])):
            error = max([relative_rms(want[n], got[n]) for n in want if want[n].size], default=0)
            oracle.check(f"{what}, sample {i}", error <= 1e-6, f"relative RMS {error:.1e}")


def branches(oracle):
    compare(oracle, "If in If, captured from two levels up", """g (bool a, bool b, float[3] x) => (float[3] y) {
  d = Add (x, x)
  y = If (a) <then_branch = t () => (float[3] p) {
      e = Mul (d, x)
      p = If (b) <then_branch = tt () => (float[3] q) { q = Sub (e, d) }, else_branch = te () => (float[3] r) { r = Neg (e) }>
    }, else_branch = f () => (float[3] s) { s = Identity (x) }>
}""", [{"a": flag(a), "b": flag(b), "x": normal(3)} for a in (0, 1) for b in (0, 1)])
    compare(oracle, "a captured value handed on; a name in both branches", """g (bool a, float[3] x) => (float[3] y, float[N] z) {
  d = Exp (x)
  y, z = If (a) <then_branch = t () => (float[3] v, float[N] u) { v = Identity (d) u = Relu (d) },
                 else_branch = f () => (float[3] v, float[N] u) { v = Neg (d) u = Concat <axis = 0> (d, x) }>
}""", [{"a": flag(a), "x": normal(3)} for a in (0, 1)])


def loops(oracle):
    body = """body = b (int64 i, bool c, float[2] s) => (bool go, float[2] t, float[2] row, float k) {
      t = Add (s, x)
      row = Mul (t, x)
      k = Cast <to = 1> (i)
      go = Identity (c)
    }"""
    compare(oracle, "Loop, carried and scanned", "g (int64 n, bool c, float[2] x) => (float[2] last, float[R, 2] rows, float[R] ks) {\n"
            f"  last, rows, ks = Loop (n, c, x) <{body}>\n}}",
            [{"n": count(n), "c": flag(c), "x": normal(2)} for n, c in ((3, 1), (1, 1), (0, 1), (3, 0), (-2, 1), (300, 1))])
    compare(oracle, "Loop while", """g (float x) => (float last, float[R] seen) {
  none = Constant <value = bool {1}> ()
  top = Constant <value = float {10.0}> ()
  last, seen = Loop ("", none, x) <body = b (int64 i, bool c, float s) => (bool go, float t, float u) {
      t = Add (s, s)
      u = Identity (s)
      go = Less (t, top)
  }>
}""", [{"x": np.array(v, np.float32)} for v in (0.1, 1, 20)])
    compare(oracle, "Loop in Loop, the inner captures what the outer carries", """g (int64 n, float[2] x) => (float[2] last, float[R, C, 2] all) {
  yes = Constant <value = bool {1}> ()
  two = Constant <value = int64 {2}> ()
  last, all = Loop (n, yes, x) <body = o (int64 i, bool c, float[2] s) => (bool go, float[2] t, float[C, 2] rows) {
      go = Identity (c)
      zero = Sub (s, s)
      t, rows = Loop (two, yes, zero) <body = p (int64 j, bool d, float[2] u) => (bool on, float[2] v, float[2] w) {
          on = Identity (d)
          v = Add (u, s)
          w = Mul (v, x)
      }>
  }>
}""", [{"n": count(n), "x": normal(2)} for n in (1, 4)])
    compare(oracle, "Loop, carried dims grow", """g (int64 n, float[2] x) => (float[M] y) {
  yes = Constant <value = bool {1}> ()
  y = Loop (n, yes, x) <body = b (int64 i, bool c, float[P] s) => (bool go, float[Q] t) { go = Identity (c) t = Concat <axis = 0> (s, x) }>
}""", [{"n": count(n), "x": normal(2)} for n in (0, 1, 5)])
    compare(oracle, "Loop, condition left out and false inside", """g (int64 n, float[2] x) => (float[2] y) {
  y = Loop (n, "", x) <body = b (int64 i, bool c, float[2] s) => (bool go, float[2] t) { go = Constant <value = bool {0}> () t = Add (s, x) }>
}""", [{"n": count(3), "x": normal(2)}])
    compare(oracle, "Loop, iteration and condition of one element", """g (int64[1] n, bool[1] c, float[2] x) => (float[2] y, float[R, S] z) {
  y, z = Loop (n, c, x) <body = b (int64[1] i, bool[1] d, float[2] s) => (bool[1] go, float[2] t, float[1] k) {
      go = Identity (d) t = Add (s, x) k = Cast <to = 1> (i) }>
}""", [{"n": count([2]), "c": flag([1]), "x": normal(2)}])


def scans(oracle):
    for axis_in, way_in, axis_out, way_out in ((0, 0, 0, 0), (1, 1, 1, 0), (-1, 0, -1, 1), (2, 1, 0, 1)):
        compare(oracle, f"Scan axes {axis_in} {axis_out}, directions {way_in} {way_out}", """g (float[2] s0, float[3, 4, 5] x, float[3, 4, 5] z) => (float[D] s, float[E, F, G] y) {
  s, y = Scan <num_scan_inputs = 2, body = b (float[D] a, float[P, Q] p, float[P, Q] q) => (float[D] t, float[P, Q] r) {
      axes = Constant <value = int64[2] {0, 1}> ()
      sum = ReduceSum <keepdims = 0> (p, axes)
      t = Add (a, sum)
      m = Mul (p, q)
      r = Add (m, sum)
  }, scan_input_axes = [%d, %d], scan_input_directions = [%d, 0], scan_output_axes = [%d], scan_output_directions = [%d]> (s0, x, z)
}""" % (axis_in, axis_in, way_in, axis_out, way_out), [{"s0": normal(2), "x": normal(3, 4, 5), "z": normal(3, 4, 5)}])


def functions(oracle):
    domain = ', "local" : 1'
    compare(oracle, "functions in functions, attributes passed on, defaults", """g (float[3] x) => (float[3] y, float[3] z) {
  y = local.outer <slope = 0.25> (x)
  z = local.outer (x)
}
<opset_import: ["" : 17, "local" : 1], domain: "local"> outer <slope: float = 0.5> (a) => (b) {
  t = local.inner <alpha: float = @slope> (a)
  u = local.inner <alpha = 2.0> (t)
  b = Add (t, u)
}
<opset_import: ["" : 17], domain: "local"> inner <alpha> (a) => (b) { t = Neg (a) b = LeakyRelu <alpha: float = @alpha> (t) }
""", [{"x": normal(3)}], more=domain)
    compare(oracle, "a function whose body captures, called from a body", """g (bool c, float[3] x) => (float[3] y) {
  t = Exp (x)
  y = If (c) <then_branch = p () => (float[3] q) { q = local.pick (c, t, x) }, else_branch = r () => (float[3] s) { s = local.pick (c, x, t) }>
}
<opset_import: ["" : 17], domain: "local"> pick (c, a, t) => (b) {
  u = Add (a, a)
  b = If (c) <then_branch = p () => (float[3] q) { q = Mul (u, t) }, else_branch = r () => (float[3] s) { s = Sub (u, t) }>
}
""", [{"c": flag(c), "x": normal(3)} for c in (0, 1)], more=domain)
    compare(oracle, "optional input left out; names that collide", """g (float[3] x) => (float[3] y, float[3] w) {
  t = ReduceMax <keepdims = 0> (x)
  y, w = local.bound (x, "", t)
}
<opset_import: ["" : 17], domain: "local"> bound (x, low, high) => (y, w) { t = Neg (x) w = Abs (x) y = Clip (t, low, high) }
""", [{"x": normal(3)}], more=domain)


def main():
    oracle = Oracle()
    for part in (branches, loops, scans, functions):
        before = len(oracle.failed)
        try:
            part(oracle)
        except Exception as e:
            oracle.check(part.__name__ + ": setting up", False, repr(e)[:600])
        print(f"{part.__name__}: {'ok' if len(oracle.failed) == before else 'FAILED'}")
    oracle.finish()


main()
