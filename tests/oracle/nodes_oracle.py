"""docs/nodes.md says what is counted: `nibble fuse` leaves as many nodes as it says, no more than the better of the other
simplifiers on nine of ten models, and each one where it leaves more is explained there."""
import sys

from common import Oracle


def main():
    oracle = Oracle()
    if not oracle.shared.is_dir():
        print("NOT RUN: the folder of real models is absent")
        sys.exit(77)
    sys.path.insert(0, str(oracle.source / "docs"))
    from nodes_table import BLOCKS_HEAD, blocks_table, nibble_nodes
    text = (oracle.source / "docs" / "nodes.md").read_text()
    text, _, blocks = text.partition(BLOCKS_HEAD)
    oracle.check("recognised blocks", BLOCKS_HEAD + blocks == blocks_table(oracle.nibble, oracle.shared),
                 "docs/nodes.md is stale (run ./dev table)")
    told = {cells[1].strip(): [c.strip() for c in cells[2:8]] for cells in
            (line.split("|") for line in text.splitlines() if line.startswith("| "))}
    explained, no_more = text.split("|")[-1], 0
    models = oracle.models()
    for model in models:
        row = told.get(model.stem, [])
        counts = [nibble_nodes(oracle.nibble, model, oracle.folder),
                  nibble_nodes(oracle.nibble, model, oracle.folder, "--pipeline", "onnxruntime", "--target", "onnxruntime-cpu")]
        oracle.check(f"{model.stem}: counts", [row[1], row[4]] == [str(c) for c in counts],
                     f"docs/nodes.md is stale (run ./dev table): {row} where {counts} are counted")
        best = min((int(c) for c in row[2:4] if c != "fails"), default=counts[0])
        no_more += counts[0] <= best
        oracle.check(f"{model.stem}: more than {best} are explained", counts[0] <= best or model.stem in explained)
    oracle.check("no more than the better simplifier on nine of ten", no_more >= 0.9 * len(models), f"{no_more} of {len(models)}")
    print(f"{no_more} of {len(models)} models with no more nodes than the better simplifier leaves")
    oracle.finish()


main()
