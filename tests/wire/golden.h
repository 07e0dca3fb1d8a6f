// One example of every message, with the bytes of its fields and its text, written down independently of the codec.
#pragma once

#include <string>
#include <vector>

#include "proto-free-wire/message.h"

namespace dtrain::wire {

struct Golden {
  Message message;
  std::string text;
  std::string hex;  // of the fields
};

inline Digest digest(uint8_t byte) {
  Digest d;
  d.fill(byte);
  return d;
}

inline const std::vector<Golden>& goldens() {
  static const std::vector<Golden> all = {
      {Hello{.protocol = 1,
             .program = "0.1.0",
             .rank = 3,
             .wanted_rank = 0,
             .incarnation = 0x1122334455667788,
             .run_digest = digest(0xaa),
             .data_digest = digest(0xbb),
             .cluster_digest = digest(0xcc),
             .init_digest = digest(0xdd),
             .fingerprint = "avx2",
             .nonce = digest(0xee)},
       "Hello{protocol=1, program=\"0.1.0\", rank=3, wanted_rank=0, incarnation=1234605616436508552, "
       "run_digest=aaaaaaaaaaaa, data_digest=bbbbbbbbbbbb, cluster_digest=cccccccccccc, init_digest=dddddddddddd, "
       "fingerprint=\"avx2\", nonce=eeeeeeeeeeee}",
       "010005000000302e312e3003000000000000008877665544332211aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
       "aaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbcccccccccc"
       "cccccccccccccccccccccccccccccccccccccccccccccccccccccc"
       "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd0400000061767832"
       "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"},
      {Welcome{.rank = 1, .incarnation = 42}, "Welcome{rank=1, incarnation=42}", "010000002a00000000000000"},
      {Refuse{.exit_code = 2, .field = "program", .ours = "0.1.0", .theirs = "0.2.0"},
       "Refuse{exit_code=2, field=\"program\", ours=\"0.1.0\", theirs=\"0.2.0\"}",
       "020700000070726f6772616d05000000302e312e3005000000302e322e30"},
      {Heartbeat{}, "Heartbeat{}", ""},
      {MemoryOffered{.region = 3, .bytes = 1u << 26}, "MemoryOffered{region=3, bytes=67108864}",
       "030000000000000400000000"},
      {MemoryShared{.region = 3, .mapped = true}, "MemoryShared{region=3, mapped=true}", "0300000001"},
      {MemoryGone{.region = 3}, "MemoryGone{region=3}", "03000000"},
      {MemoryRead{.count = 4}, "MemoryRead{count=4}", "04000000"},
      {Challenge{.rank = 2, .nonce = digest(0x11), .proof = digest(0x22)},
       "Challenge{rank=2, nonce=111111111111, proof=222222222222}",
       "020000001111111111111111111111111111111111111111111111111111111111111111"
       "2222222222222222222222222222222222222222222222222222222222222222"},
      {Join{.computes = true, .serves = false, .threads = 2, .incarnation = 42},
       "Join{computes=true, serves=false, threads=2, incarnation=42}", "0100020000002a00000000000000"},
      {Begin{.micro_batches = 4, .eval_micro_batches = 8, .threads = 1, .step = 100, .checkpoint = "step-00000100"},
       "Begin{micro_batches=4, eval_micro_batches=8, threads=1, step=100, checkpoint=\"step-00000100\"}",
       "04000000080000000100000064000000000000000d000000737465702d3030303030313030"},
      {Ready{}, "Ready{}", ""},
      {Assign{.generation = 7,
              .kind = StepKind::kEval,
              .from = 5,
              .until = 6,
              .first = 2,
              .last = 4,
              .also_first = 6,
              .also_last = 8},
       "Assign{generation=7, kind=eval, from=5, until=6, first=2, last=4, also_first=6, also_last=8}",
       "07000000020500000000000000060000000000000002000000040000000600000008000000"},
      {Rates{.from = 9, .rates = {0.5, 0.25}}, "Rates{from=9, rates=[0.5, 0.25]}",
       "090000000000000002000000000000000000e03f000000000000d03f"},
      {Committed{.version = -1}, "Committed{version=-1}", "ffffffffffffffff"},
      {NormPartial{.step = 3, .round = 1, .squares = {1.0}}, "NormPartial{step=3, round=1, squares=[1]}",
       "03000000000000000100000001000000000000000000f03f"},
      {NormFactor{.step = 3, .round = 1, .factor = 0.5, .ratios = {1.0}},
       "NormFactor{step=3, round=1, factor=0.5, ratios=[1]}",
       "030000000000000001000000000000000000e03f01000000000000000000f03f"},
      {Snapshot{.version = 8, .folder = "a b", .step = 5}, "Snapshot{version=8, folder=\"a b\", step=5}",
       "0800000000000000030000006120620500000000000000"},
      {SnapshotDone{.version = 8, .file = "ps-0", .bytes = 1000, .sha256 = digest(0x01), .error = ""},
       "SnapshotDone{version=8, file=\"ps-0\", bytes=1000, sha256=010101010101, error=\"\"}",
       "08000000000000000400000070732d30e803000000000000010101010101010101010101010101010101010101010101"
       "010101010101010100000000"},
      {MetricNode{.kind = StepKind::kTrain,
                  .step = 3,
                  .first = 0,
                  .last = 2,
                  .metrics = {1.5, 64.0, 12.0, 20.0},
                  .lag = 5,
                  .dropped = true},
       "MetricNode{kind=train, step=3, first=0, last=2, loss=1.5, samples=64, correct=12, among_top=20, lag=5, "
       "dropped=true}",
       "0103000000000000000000000002000000000000000000f83f0000000000005040000000000000284000000000000034400500000001"},
      {Stop{.exit_code = 0, .reason = ""}, "Stop{exit_code=0, reason=\"\"}", "0000000000"},
      {Stopped{}, "Stopped{}", ""},
      {Failure{.exit_code = 3, .reason = "no such file"}, "Failure{exit_code=3, reason=\"no such file\"}",
       "030c0000006e6f20737563682066696c65"},
      {ShardPart{.version = 8, .offset = 256, .total = 1000}, "ShardPart{version=8, offset=256, total=1000}",
       "08000000000000000001000000000000e803000000000000"},
      {WorkDone{.step = 3, .first = 0, .last = 2}, "WorkDone{step=3, first=0, last=2}",
       "03000000000000000000000002000000"},
      {WorkerRates{.from = 9, .rates = {0.5}}, "WorkerRates{from=9, rates=[0.5]}",
       "090000000000000001000000000000000000e03f"},
      {VectorOrder{.step = 3,
                   .round = 1,
                   .drop_oldest = false,
                   .commit = true,
                   .accept = true,
                   .to = {7},
                   .terms = {2},
                   .vectors = {2, 4},
                   .factors = {1.0, 0.5},
                   .left = {0},
                   .right = {4}},
       "VectorOrder{step=3, round=1, drop_oldest=false, commit=true, accept=true, to=[7], terms=[2], vectors=[2, 4], "
       "factors=[1, 0.5], left=[0], right=[4]}",
       "0300000000000000010000000001010100000007000000010000000200000002000000020000000400000002000000"
       "000000000000f03f000000000000e03f01000000000000000100000004000000"},
      {VectorDots{.step = 3, .round = 1, .dot = 2, .sums = {1.0}}, "VectorDots{step=3, round=1, dot=2, sums=[1]}",
       "0300000000000000010000000200000001000000000000000000f03f"},
      {Offer{.step = 3, .block = 2, .first = 0, .last = 4}, "Offer{step=3, block=2, first=0, last=4}",
       "0300000000000000020000000000000004000000"},
      {Take{.step = 3, .block = 2, .first = 0, .last = 4, .chunks = 0x80000001},
       "Take{step=3, block=2, first=0, last=4, chunks=2147483649}", "030000000000000002000000000000000400000001000080"},
      {NodeChunk{.step = 3, .block = 2, .first = 0, .last = 4, .chunk = 1, .codec = 4},
       "NodeChunk{step=3, block=2, first=0, last=4, chunk=1, codec=4}",
       "03000000000000000200000000000000040000000100000004"},
      {Absorbed{.step = 3, .block = 2, .first = 0, .last = 4, .version = 9, .dropped = true},
       "Absorbed{step=3, block=2, first=0, last=4, version=9, dropped=true}",
       "0300000000000000020000000000000004000000090000000000000001"},
      {Pull{.block = 2, .version = 4, .held = 3}, "Pull{block=2, version=4, held=3}",
       "0200000004000000000000000300000000000000"},
      {ParameterChunk{.block = 2, .version = 4, .chunk = 3, .base = 3, .codec = 5},
       "ParameterChunk{block=2, version=4, chunk=3, base=3, codec=5}",
       "02000000040000000000000003000000030000000000000005"},
      {Gone{.block = 2, .version = 4, .newest = 9}, "Gone{block=2, version=4, newest=9}",
       "0200000004000000000000000900000000000000"},
      {StageValue{.kind = StepKind::kEval, .step = 3, .micro_batch = 2, .value = 77, .piece = 1},
       "StageValue{kind=eval, step=3, micro_batch=2, value=77, piece=1}", "020300000000000000020000004d00000001000000"},
      {StageDone{.kind = StepKind::kTrain, .step = 3, .micro_batches = 2},
       "StageDone{kind=train, step=3, micro_batches=2}", "01030000000000000002000000"},
      {RowPull{.round = 5, .part = 1, .version = 4, .rows = {3, 300}},
       "RowPull{round=5, part=1, version=4, rows=[3, 300]}",
       "0500000000000000010000000400000000000000020000000300000000000000"
       "2c01000000000000"},
      {Rows{.round = 5, .part = 1, .version = 4}, "Rows{round=5, part=1, version=4}",
       "0500000000000000010000000400000000000000"},
      {RowsGone{.round = 5, .version = 4, .newest = 9}, "RowsGone{round=5, version=4, newest=9}",
       "050000000000000004000000000000000900000000000000"},
      {RowPush{.step = 3, .micro_batch = 2, .part = 0, .parts = 1, .rows = {}},
       "RowPush{step=3, micro_batch=2, part=0, parts=1, rows=[]}", "030000000000000002000000000000000100000000000000"},
      {RowsTaken{.step = 3, .micro_batch = 2, .version = 4}, "RowsTaken{step=3, micro_batch=2, version=4}",
       "0300000000000000020000000400000000000000"},
      {Guest{.program = "0.1.0", .nonce = digest(0x33)}, "Guest{program=\"0.1.0\", nonce=333333333333}",
       "05000000302e312e303333333333333333333333333333333333333333333333333333333333333333"},
      {AskRun{}, "AskRun{}", ""},
      {RunInfo{.name = "mlp", .rank = 2, .tasks = 3, .tensors = 4}, "RunInfo{name=\"mlp\", rank=2, tasks=3, tensors=4}",
       "030000006d6c70020000000300000004000000"},
      {TaskPlace{.rank = 1, .name = "/job:ps/task:1", .address = "h:25", .computes = false, .serves = true},
       "TaskPlace{rank=1, name=\"/job:ps/task:1\", address=\"h:25\", computes=false, serves=true}",
       "010000000e0000002f6a6f623a70732f7461736b3a3104000000683a32350001"},
      {NamedTensor{.tensor = 2, .name = "a.weight", .shape = {3, -1}, .kind = 1},
       "NamedTensor{tensor=2, name=\"a.weight\", shape=[3, -1], kind=1}",
       "0200000008000000612e776569676874020000000300000000000000ffffffffffffffff01"},
      {AskStanding{.request = 7}, "AskStanding{request=7}", "07000000"},
      {Standing{.request = 7, .version = -1, .stride = 2}, "Standing{request=7, version=-1, stride=2}",
       "07000000ffffffffffffffff02000000"},
      {Read{.request = 7, .gradient = true, .version = 12, .tensors = {0, 2}},
       "Read{request=7, gradient=true, version=12, tensors=[0, 2]}",
       "07000000010c000000000000000200000000000000000000000200000000000000"},
      {TensorChunk{.request = 7, .tensor = 2, .version = 12, .first = 65536},
       "TensorChunk{request=7, tensor=2, version=12, first=65536}", "07000000020000000c000000000000000000010000000000"},
      {ReadDone{.request = 7, .gone = true, .elements = 0, .version = 12, .newest = 15},
       "ReadDone{request=7, gone=true, elements=0, version=12, newest=15}",
       "070000000100000000000000000c000000000000000f00000000000000"},
      {Put{.put = 0x1122334455667788, .tensor = 2}, "Put{put=1234605616436508552, tensor=2}",
       "887766554433221102000000"},
      {PutRanges{.put = 9, .ranges = {0, 65536}}, "PutRanges{put=9, ranges=[0, 65536]}",
       "09000000000000000200000000000000000000000000010000000000"},
      {PutChunk{.put = 9, .first = 65536}, "PutChunk{put=9, first=65536}", "09000000000000000000010000000000"},
      {PutStaged{.put = 9, .tensor = 2}, "PutStaged{put=9, tensor=2}", "090000000000000002000000"},
      {PutOrder{.put = 9, .version = -1}, "PutOrder{put=9, version=-1}", "0900000000000000ffffffffffffffff"},
      {PutDone{.put = 9, .version = 13, .error = "no"}, "PutDone{put=9, version=13, error=\"no\"}",
       "09000000000000000d00000000000000020000006e6f"},
      {TaskStatus{.step = 12,
                  .samples_per_s = 1.5,
                  .waited = 0.25,
                  .sent = 1000,
                  .received = 2000,
                  .sent_per_s = 10.5,
                  .received_per_s = 20.5,
                  .queued = 64,
                  .resident = 4096},
       "TaskStatus{step=12, samples_per_s=1.5, waited=0.25, sent=1000, received=2000, sent_per_s=10.5, "
       "received_per_s=20.5, queued=64, resident=4096}",
       "0c00000000000000000000000000f83f000000000000d03fe803000000000000d0070000000000000000000000002540000000000080344"
       "040000000000000000010000000000000"},
      {AskStatus{.request = 7}, "AskStatus{request=7}", "07000000"},
      {StatusRow{.request = 7,
                 .rank = 1,
                 .age = 0.5,
                 .lag = 3,
                 .status = {.step = 12,
                            .samples_per_s = 1.5,
                            .waited = 0.25,
                            .sent = 1000,
                            .received = 2000,
                            .sent_per_s = 10.5,
                            .received_per_s = 20.5,
                            .queued = 64,
                            .resident = 4096}},
       "StatusRow{request=7, rank=1, age=0.5, lag=3, step=12, samples_per_s=1.5, waited=0.25, sent=1000, "
       "received=2000, sent_per_s=10.5, received_per_s=20.5, queued=64, resident=4096}",
       "0700000001000000000000000000e03f03000000000000000c00000000000000000000000000f83f000000000000d03fe80300000000000"
       "0d0070000000000000000000000002540000000000080344040000000000000000010000000000000"},
      {StatusEnd{.request = 7, .step = 12, .steps = 100, .phase = "training"},
       "StatusEnd{request=7, step=12, steps=100, phase=\"training\"}",
       "070000000c00000000000000640000000000000008000000747261696e696e67"},
      {Proof{.proof = digest(0x44)}, "Proof{proof=444444444444}",
       "4444444444444444444444444444444444444444444444444444444444444444"},
  };
  return all;
}

inline std::string to_hex(ByteSpan bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) {
    out += kDigits[static_cast<uint8_t>(b) >> 4];
    out += kDigits[static_cast<uint8_t>(b) & 15];
  }
  return out;
}

}  // namespace dtrain::wire
