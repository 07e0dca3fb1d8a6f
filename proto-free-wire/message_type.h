// The id of every message on the wire. An id is never reused; FORMAT.md has a row for each.
#pragma once

#include <cstdint>

namespace dtrain::wire {

enum class MessageType : uint16_t {
  // a connection's beginning and life
  kHello = 1,
  kWelcome = 2,
  kRefuse = 3,
  kHeartbeat = 4,
  kMemoryOffered = 5,
  kMemoryShared = 6,
  kMemoryGone = 7,
  kMemoryRead = 8,
  kChallenge = 9,
  // membership and progress: tasks and the coordinator
  kJoin = 10,
  kBegin = 11,
  kReady = 12,
  kAssign = 13,
  kRates = 14,
  kCommitted = 15,
  kNormPartial = 16,
  kNormFactor = 17,
  kSnapshot = 18,
  kSnapshotDone = 19,
  kMetricNode = 20,
  kStop = 21,
  kStopped = 22,
  kFailure = 23,
  kShardPart = 24,
  kWorkDone = 25,
  kWorkerRates = 26,
  kVectorOrder = 27,
  kVectorDots = 28,
  // tensors: workers and shard servers
  kOffer = 30,
  kTake = 31,
  kNodeChunk = 32,
  kAbsorbed = 33,
  kPull = 34,
  kParameterChunk = 35,
  kGone = 36,
  // between the workers that compute one network
  kStageValue = 40,
  kStageDone = 41,
  // rows of sparse tables: workers and shard servers
  kRowPull = 44,
  kRows = 45,
  kRowsGone = 46,
  kRowPush = 47,
  kRowsTaken = 48,
  // guests, who look at a run from outside, and how tasks are doing
  kGuest = 50,
  kAskRun = 51,
  kRunInfo = 52,
  kTaskPlace = 53,
  kNamedTensor = 54,
  kAskStanding = 55,
  kStanding = 56,
  kRead = 57,
  kTensorChunk = 58,
  kReadDone = 59,
  kPut = 60,
  kPutRanges = 61,
  kPutChunk = 62,
  kPutStaged = 63,
  kPutOrder = 64,
  kPutDone = 65,
  kTaskStatus = 66,
  kAskStatus = 67,
  kStatusRow = 68,
  kStatusEnd = 69,
  // the other half of kChallenge
  kProof = 70,
};

}  // namespace dtrain::wire
