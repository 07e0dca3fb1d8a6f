// Every message, as one type. To add one: its file in messages/, its id in message_type.h, a line here, a row in
// FORMAT.md, golden bytes in tests/wire.
#pragma once

#include <memory>
#include <variant>

#include "base/bytes.h"
#include "proto-free-wire/messages/absorbed.h"
#include "proto-free-wire/messages/ask_run.h"
#include "proto-free-wire/messages/ask_standing.h"
#include "proto-free-wire/messages/ask_status.h"
#include "proto-free-wire/messages/assign.h"
#include "proto-free-wire/messages/begin.h"
#include "proto-free-wire/messages/challenge.h"
#include "proto-free-wire/messages/committed.h"
#include "proto-free-wire/messages/failure.h"
#include "proto-free-wire/messages/gone.h"
#include "proto-free-wire/messages/guest.h"
#include "proto-free-wire/messages/heartbeat.h"
#include "proto-free-wire/messages/hello.h"
#include "proto-free-wire/messages/join.h"
#include "proto-free-wire/messages/memory_gone.h"
#include "proto-free-wire/messages/memory_offered.h"
#include "proto-free-wire/messages/memory_read.h"
#include "proto-free-wire/messages/memory_shared.h"
#include "proto-free-wire/messages/metric_node.h"
#include "proto-free-wire/messages/named_tensor.h"
#include "proto-free-wire/messages/node_chunk.h"
#include "proto-free-wire/messages/norm_factor.h"
#include "proto-free-wire/messages/norm_partial.h"
#include "proto-free-wire/messages/offer.h"
#include "proto-free-wire/messages/parameter_chunk.h"
#include "proto-free-wire/messages/proof.h"
#include "proto-free-wire/messages/pull.h"
#include "proto-free-wire/messages/put.h"
#include "proto-free-wire/messages/put_chunk.h"
#include "proto-free-wire/messages/put_done.h"
#include "proto-free-wire/messages/put_order.h"
#include "proto-free-wire/messages/put_ranges.h"
#include "proto-free-wire/messages/put_staged.h"
#include "proto-free-wire/messages/rates.h"
#include "proto-free-wire/messages/read.h"
#include "proto-free-wire/messages/read_done.h"
#include "proto-free-wire/messages/ready.h"
#include "proto-free-wire/messages/refuse.h"
#include "proto-free-wire/messages/row_pull.h"
#include "proto-free-wire/messages/row_push.h"
#include "proto-free-wire/messages/rows.h"
#include "proto-free-wire/messages/rows_gone.h"
#include "proto-free-wire/messages/rows_taken.h"
#include "proto-free-wire/messages/run_info.h"
#include "proto-free-wire/messages/shard_part.h"
#include "proto-free-wire/messages/snapshot.h"
#include "proto-free-wire/messages/snapshot_done.h"
#include "proto-free-wire/messages/stage_done.h"
#include "proto-free-wire/messages/stage_value.h"
#include "proto-free-wire/messages/standing.h"
#include "proto-free-wire/messages/status_end.h"
#include "proto-free-wire/messages/status_row.h"
#include "proto-free-wire/messages/stop.h"
#include "proto-free-wire/messages/stopped.h"
#include "proto-free-wire/messages/take.h"
#include "proto-free-wire/messages/task_place.h"
#include "proto-free-wire/messages/task_status.h"
#include "proto-free-wire/messages/tensor_chunk.h"
#include "proto-free-wire/messages/vector_dots.h"
#include "proto-free-wire/messages/vector_order.h"
#include "proto-free-wire/messages/welcome.h"
#include "proto-free-wire/messages/work_done.h"
#include "proto-free-wire/messages/worker_rates.h"

namespace dtrain::wire {

using Message =
    std::variant<Hello, Welcome, Refuse, Heartbeat, MemoryOffered, MemoryShared, MemoryGone, MemoryRead, Challenge,
                 Join, Begin, Ready, Assign, Rates, Committed, NormPartial, NormFactor, Snapshot, SnapshotDone,
                 MetricNode, Stop, Stopped, Failure, ShardPart, WorkDone, WorkerRates, VectorOrder, VectorDots, Offer,
                 Take, NodeChunk, Absorbed, Pull, ParameterChunk, Gone, StageValue, StageDone, RowPull, Rows, RowsGone,
                 RowPush, RowsTaken, Guest, AskRun, RunInfo, TaskPlace, NamedTensor, AskStanding, Standing, Read,
                 TensorChunk, ReadDone, Put, PutRanges, PutChunk, PutStaged, PutOrder, PutDone, TaskStatus, AskStatus,
                 StatusRow, StatusEnd, Proof>;

// The tensor bytes behind a message. They are not copied on their way to the socket: `owner` keeps them alive, and
// whoever sends promises not to change them while it is held.
struct Payload {
  ByteSpan bytes;
  std::shared_ptr<const void> owner;
};

// A task's number in the cluster spec's global order: servers before workers.
using Rank = uint32_t;
// A guest, who is no task, is known by a number from here on, which a transport gives it for one connection.
constexpr Rank kFirstGuest = 0x80000000;
constexpr bool is_guest(Rank rank) { return rank >= kFirstGuest; }

// Where state machines put what they want sent. Never blocks; messages to one rank arrive in the order sent, but that
// tensors (those with a payload) may be overtaken by messages without. A message to a rank that is not connected is
// dropped: whoever cares is told of the loss.
class Outbox {
 public:
  virtual ~Outbox() = default;
  virtual void send(Rank to, Message message, Payload payload = {}) = 0;
};

}  // namespace dtrain::wire
