#include "libquant/report/task_metrics.h"

#include <cmath>

#include "tests/catch.h"

namespace quant {
namespace {

TEST_CASE("classes: precision, recall and F1 by hand") {
  ClassCounts counts;
  // Labels 0 0 1 1 2, answers 0 1 1 1 3: class 2 is never found, class 3 never right.
  for (const auto& [label, answer] : {std::pair{0, 0}, {0, 1}, {1, 1}, {1, 1}, {2, 3}}) counts.Add(label, answer);
  CHECK(counts.rows() == 5);
  CHECK(counts.accuracy() == 0.6);
  CHECK(std::abs(counts.macro_precision() - (1 + 2.0 / 3 + 0 + 0) / 4) < 1e-12);
  CHECK(std::abs(counts.macro_recall() - (0.5 + 1 + 0 + 0) / 4) < 1e-12);
  CHECK(std::abs(counts.macro_f1() - (2.0 / 3 + 0.8 + 0 + 0) / 4) < 1e-12);
  CHECK(ClassCounts().macro_f1() == 0);
}

TEST_CASE("squared errors are averaged over all elements of all samples") {
  SquaredError error;
  const std::vector<float> answer = {1, 2};
  const Tensor tensor = Tensor::Of<float>({1, 2}, std::span<const float>(answer));
  REQUIRE(error.Add(std::vector<double>{1, 4}, tensor).ok());
  REQUIRE(error.Add(std::vector<double>{3, 2}, tensor).ok());
  CHECK(error.mean() == 2);
  CHECK(ExitCode(error.Add(std::vector<double>{1}, tensor)) == 3);
}

}  // namespace
}  // namespace quant
