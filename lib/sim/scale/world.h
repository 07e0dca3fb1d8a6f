// What all hosts of a simulated cluster share: the time, what happens next, what is under way, and the memory that
// every parameter, gradient and version of it is said to lie in. Nobody reads or writes that memory. One thread.
#pragma once

#include <cstddef>
#include <vector>

#include "ps/block_table.h"
#include "sim/scale/event_queue.h"
#include "sim/scale/frame.h"
#include "sim/scale/model.h"

namespace dtrain::sim::scale {

// Addresses without memory behind them.
class PhantomMemory {
 public:
  explicit PhantomMemory(const std::vector<ParameterInfo>& parameters);
  ~PhantomMemory();
  PhantomMemory(const PhantomMemory&) = delete;
  PhantomMemory& operator=(const PhantomMemory&) = delete;

  const std::vector<float*>& pointers() const { return pointers_; }  // by parameter
  float* of(const ps::Block& block) const { return pointers_[static_cast<size_t>(block.parameter)] + block.first; }

 private:
  void* base_ = nullptr;
  size_t bytes_ = 0;
  std::vector<float*> pointers_;
};

struct World {
  explicit World(const Model& m)
      : model(m),
        table(m.parameters, m.servers()),
        memory(m.parameters),
        micro_batches(m.workers * m.micro_batches),
        norms(ps::norm_rounds(m.clips, m.optimizer->norm_need())) {}

  const Model& model;
  const ps::BlockTable table;
  const PhantomMemory memory;
  const uint32_t micro_batches;  // K
  const ps::NormRounds norms;
  Instant now = 0;
  EventQueue events;
  Frames frames;
  uint32_t computing = 0;  // workers, at the moment
  uint64_t messages = 0;   // delivered

  bool serves(uint32_t host) const { return host < model.servers(); }
  bool computes(uint32_t host) const { return host >= model.ps; }
};

}  // namespace dtrain::sim::scale
