// The run file as far as every run has it: the name, the seed, the training loop. Data, optimizer, schedule and network
// stay values, for the modules that know their keys.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "config/diagnostics.h"
#include "config/value.h"

namespace dtrain::config {

// [train]
struct TrainSpec {
  int64_t batch = 1;                    // samples a step
  std::optional<int64_t> micro_batch;   // divides batch; empty: "auto", batch / workers at first start
  std::optional<int64_t> threads;       // for one micro-batch; empty: "auto"
  std::optional<int64_t> steps;         // exactly one of steps and epochs is set
  std::optional<double> epochs;         // may be a fraction
  int64_t log_every = 50;               // steps
  int64_t checkpoint_every = 500;       // steps; 0: only at the end
  int64_t eval_every = 0;               // steps; 0: after each epoch and at the end
  int64_t keep_checkpoints = 3;         // older ones are deleted
  std::string precision = "fp32";       // of products: "fp32", "bf16" or "fp16"
  bool winograd = true;                 // convolutions of 3x3 kernels by Winograd's algorithm where that is faster
  std::string isa;                      // the instruction set to use on all hosts; empty: the best of each
  double ema = 0;                       // decay of the average of the weights that is kept beside them; 0: none
  std::optional<Value> consistency;     // a mode's name or table, for consistency::read_rule; empty: synchronous
  std::optional<bool> speculation;      // others compute the share of a slow worker; empty: where the mode allows it
  std::optional<Value> compression;     // of gradients: a method's name or table, for compress::read_method
  std::optional<Value> compress_pulls;  // the same of parameters
  std::optional<bool> reproducible;     // true: refuse what gives up the same bits on any cluster
  bool allow_different_arithmetic =
      false;                   // take tasks whose arithmetic fingerprint differs, and give up the same bits
  double start_timeout = 300;  // seconds until all tasks are there
  double peer_timeout = 10;    // seconds of silence after which a task counts as lost
  double idle_timeout = 3600;  // seconds without a step after which the run gives up

  // steps, or ceil(epochs · samples / batch).
  int64_t total_steps(int64_t samples) const;
};

struct RunSpec {
  std::string name;  // default: the file's name without its extension
  uint64_t seed = 1;
  TrainSpec train;
  Value data_train;
  std::optional<Value> data_test;
  std::optional<Value> data_predict;  // for `dtrain predict`
  Value optimizer;
  std::optional<Value> outer_optimizer;  // of local steps
  std::optional<Value> schedule;
  Value network;
};

// Every mistake goes to `diagnostics`; the result is usable only if there is none.
RunSpec read_run_spec(const Value& root, Diagnostics& diagnostics);

// What may change when a run is resumed: for canonical_text, so that the digest of a configuration is the run's.
std::span<const std::string> keys_free_on_resume();

}  // namespace dtrain::config
