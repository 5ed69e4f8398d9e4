#include "libquant/calib/observe.h"

namespace quant {

Status ObserveValues(const Model& model, SampleSource& samples, const std::function<bool(const std::string&)>& wanted,
                     const RunHooks::Probe& see, const std::function<void(int64_t done, int64_t all)>& progress) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(model));
  RunHooks hooks;
  hooks.chosen = wanted;
  hooks.probe = see;
  for (int64_t i = 0; i < samples.count(); ++i) {
    ASSIGN_OR_RETURN(const NamedTensors feeds, samples.Load(i));
    for (const auto& [name, tensor] : feeds) {
      if (wanted(name)) RETURN_IF_ERROR(see(name, tensor));
    }
    RETURN_IF_ERROR(session->Run(feeds, hooks).status());
    if (progress) progress(i + 1, samples.count());
  }
  return OkStatus();
}

}  // namespace quant
