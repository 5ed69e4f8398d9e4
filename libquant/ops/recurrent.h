// What LSTM, GRU and RNN have in common: checked sizes, where steps lie in memory, activations, and the walk over the
// time steps of each direction.
//
//   gates(t) = x(t) * W' + Wb + h(t - 1) * R' + Rb        W: [gates * H, I], R: [gates * H, H] of one direction
//
// x is [T, B, I], or [B, T, I] with layout 1; states are [D, B, H] or [B, D, H]; y is [T, D, B, H] or [B, T, D, H].
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libquant/ops/activation.h"
#include "libquant/ops/float_view.h"
#include "libquant/ops/op_def.h"

namespace quant {

struct RecurrentPlan {
  int64_t gates = 0;
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0, directions = 1;
  bool batch_first = false;             // layout 1
  std::vector<bool> reverse;            // by direction
  std::vector<int32_t> lengths;         // by sequence
  std::vector<Activation> activations;  // per direction, one after another
  double clip = 0;

  int64_t x_row(int64_t t, int64_t b) const { return batch_first ? b * steps + t : t * batch + b; }
  int64_t y_at(int64_t t, int64_t d, int64_t b) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden;
  }
  int64_t state_at(int64_t d, int64_t b) const { return (batch_first ? b * directions + d : d * batch + b) * hidden; }
  Dims y_dims() const;
  Dims state_dims() const;
  const Activation& activation(int64_t direction, int64_t i) const {
    const auto each = static_cast<int64_t>(activations.size()) / directions;
    return activations[static_cast<size_t>(direction * each + i)];
  }
};

// Inputs 0 to 5 are x, W, R, B, sequence_lens and initial_h in all three operators. `defaults` name the activations of
// one direction. DataError when sizes don't fit, Unsupported for an unknown activation.
StatusOr<RecurrentPlan> PlanRecurrent(const KernelContext& context, int64_t gates,
                                      const std::vector<std::string>& defaults);

// The initial states of an input of state dims, or zeros: [D, B, H] whatever the layout.
template <typename T>
StatusOr<std::vector<T>> InitialState(const KernelContext& context, const RecurrentPlan& plan, int input);

// One step of one sequence: `x` has the gates' share of the input and of both biases (but see gru.cc), `h` that of the
// state before, both [gates * H]; the state is updated in place.
template <typename T>
using RecurrentStep = std::function<void(int64_t direction, int64_t b, T* x, T* h, T* state)>;

struct RecurrentOptions {
  // From this gate on, the recurrent bias goes to the state's share of the gates and not to the input's.
  int64_t apart_from_gate = -1;
};

// Runs all directions and writes outputs 0 (y) and 1 (the last h). `state` is the initial h.
template <typename T>
Status RunRecurrent(KernelContext& context, const RecurrentPlan& plan, const RecurrentOptions& options,
                    std::vector<T> state, const RecurrentStep<T>& step);

// Writes a state as output i.
template <typename T>
Status WriteState(KernelContext& context, const RecurrentPlan& plan, int i, const std::vector<T>& state);

}  // namespace quant
