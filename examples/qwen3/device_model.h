// A model's weights and its cache in device memory, where they stay across runs.
//
// Threads: one at a time. The worker must outlive it.
#pragma once

#include "common/allocations.h"
#include "qwen3/config.h"
#include "qwen3/gguf.h"

#include <precast/worker.h>

#include <cstdint>
#include <vector>

namespace precast::qwen3 {

class DeviceModel {
 public:
  /// Copies the weights to the device and makes an empty cache for `context` tokens. Throws what
  /// the file or the device throws; nothing stays allocated then.
  DeviceModel(Worker& worker, const GgufFile& file, int64_t context);
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  const Config& config() const { return config_; }
  int64_t context() const { return context_; }

  /// The arguments of one step of `Decode`; `logits` has `config().vocab` elements.
  std::vector<Arg> StepArguments(int32_t token, bool wants_logits,
                                 std::vector<float>& logits) const;

  /// Forgets all tokens of the cache.
  void Reset();

 private:
  Tensor Upload(const GgufTensor& tensor);

  Worker& worker_;
  Config config_;
  int64_t context_;
  examples::Allocations allocations_;
  std::vector<Tensor> weights_;
  Tensor lengths_, table_, order_, keys_, values_;
};

}  // namespace precast::qwen3
