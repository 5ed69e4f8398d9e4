// How well a model does its task, against what is right: classes or numbers. Of both sides of a comparison at once.
//
//   precision of a class = rows rightly given it / rows given it;  recall = rows rightly given it / rows that have it
//   F1 = 2 precision recall / (precision + recall), 0 where both are 0
//   macro: the mean over all classes that occur, as labels or as answers; micro: over all rows (for one label a row,
//   micro precision, recall and F1 are all the accuracy)
//   mean squared error: over all elements
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "libquant/base/status.h"
#include "libquant/ir/tensor.h"

namespace quant {

class ClassCounts {
 public:
  void Add(int64_t label, int64_t answer);
  int64_t rows() const { return rows_; }
  double accuracy() const;
  double macro_precision() const;
  double macro_recall() const;
  double macro_f1() const;

 private:
  struct Counts {
    int64_t labels = 0;
    int64_t answers = 0;
    int64_t right = 0;
    double precision() const;
    double recall() const;
    double f1() const;
  };
  double Mean(double (Counts::*of)() const) const;
  std::map<int64_t, Counts> classes_;
  int64_t rows_ = 0;
  int64_t right_ = 0;
};

// The figures of one side.
struct TaskScores {
  double accuracy = 0;
  double macro_precision = 0;
  double macro_recall = 0;
  double macro_f1 = 0;
};

class SquaredError {
 public:
  // DataError when `answer` has another number of elements than `target`.
  Status Add(std::span<const double> target, const Tensor& answer);
  double mean() const;

 private:
  int64_t elements_ = 0;
  double sum_ = 0;
};

}  // namespace quant
