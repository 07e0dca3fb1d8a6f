#include "proto-free-wire/receiver.h"

namespace dtrain::wire {

// Without a default: the compiler names a message that has no place here.
Receiver receiver(MessageType type) {
  using T = wire::MessageType;
  switch (type) {
    case T::kJoin:
    case T::kReady:
    case T::kCommitted:
    case T::kNormPartial:
    case T::kSnapshotDone:
    case T::kMetricNode:
    case T::kStopped:
    case T::kFailure:
    case T::kShardPart:
    case T::kWorkDone:
    case T::kVectorDots:
      return Receiver::kCoordinator;
    case T::kRates:
    case T::kNormFactor:
    case T::kVectorOrder:
    case T::kSnapshot:
    case T::kOffer:
    case T::kNodeChunk:
    case T::kPull:
    case T::kRowPull:
    case T::kRowPush:
      return Receiver::kServer;
    case T::kAssign:
    case T::kWorkerRates:
    case T::kTake:
    case T::kAbsorbed:
    case T::kParameterChunk:
    case T::kGone:
    case T::kStageValue:
    case T::kStageDone:
    case T::kRows:
    case T::kRowsGone:
    case T::kRowsTaken:
      return Receiver::kWorker;
    case T::kTaskStatus:
    case T::kPutStaged:
    case T::kPutOrder:
      return Receiver::kDesk;
    case T::kBegin:
    case T::kStop:
      return Receiver::kTask;
    case T::kHello:
    case T::kWelcome:
    case T::kRefuse:
    case T::kHeartbeat:
    case T::kMemoryOffered:
    case T::kMemoryShared:
    case T::kMemoryGone:
    case T::kMemoryRead:
    case T::kChallenge:
    case T::kGuest:
    case T::kAskRun:
    case T::kRunInfo:
    case T::kTaskPlace:
    case T::kNamedTensor:
    case T::kAskStanding:
    case T::kStanding:
    case T::kRead:
    case T::kTensorChunk:
    case T::kReadDone:
    case T::kPut:
    case T::kPutRanges:
    case T::kPutChunk:
    case T::kPutDone:
    case T::kAskStatus:
    case T::kStatusRow:
    case T::kStatusEnd:
    case T::kProof:
      break;
  }
  return Receiver::kConnection;
}

}  // namespace dtrain::wire
