// A Transpose of a Transpose becomes one, or none.
//
//   x ─ Transpose p ─ t ─ Transpose q ─ y        =>        x ─ Transpose r ─ y,   r[i] = p[q[i]]
//                                                =>        x                      where r changes nothing
//
// The first stays for its other readers.
#include <algorithm>
#include <numeric>

#include "passes/cleanup/return_input.h"
#include "passes/match.h"

namespace quant {
namespace {

// The axes' order; empty when it is the default one of an unknown rank.
std::vector<int64_t> PermOf(const Graph& graph, const Node& node) {
  if (node.attributes.Has("perm")) return node.attributes.Ints("perm");
  std::vector<int64_t> perm(static_cast<size_t>(RankOf(graph, InputOf(node, 0)).value_or(0)));
  std::iota(perm.rbegin(), perm.rend(), 0);
  return perm;
}

std::optional<GraphEdit> Merge(const PassContext& context, NodeId root) {
  const Graph& graph = context.graph();
  const Node& second = graph.node(root);
  if (!IsOp(second, "Transpose") || HasReferences(second)) return std::nullopt;
  const Node* first = MadeBy(graph, InputOf(second, 0), "Transpose");
  if (first == nullptr || HasReferences(*first)) return std::nullopt;
  const std::vector<int64_t> p = PermOf(graph, *first), q = PermOf(graph, second);
  if (p.empty() || p.size() != q.size()) return context.Miss("the rank is not known");
  std::vector<int64_t> r;
  for (int64_t axis : q) {
    if (axis < 0 || axis >= static_cast<int64_t>(p.size())) return std::nullopt;
    r.push_back(p[static_cast<size_t>(axis)]);
  }
  const ValueId x = InputOf(*first, 0);
  if (std::is_sorted(r.begin(), r.end())) return ReturnInput(context, root, x);
  GraphEdit::NewNode merged{second.name, "Transpose", second.domain, {ValueRef::Of(x)}, {}, {}};
  merged.attributes.Set("perm", std::move(r));
  GraphEdit edit(root);
  edit.ReplaceNode(root, std::move(merged));
  return edit;
}

}  // namespace

const Pass& MergeTransposesPass() {
  static const Pass pass = {.name = "merge-transposes",
                            .summary = "A Transpose of a Transpose becomes one, or none when the two cancel",
                            .roots = {"Transpose"},
                            .rule = Merge};
  return pass;
}

}  // namespace quant
