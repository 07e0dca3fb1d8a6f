#include "net/asio/outgoing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/check.h"
#include "proto-free-wire/codec.h"

namespace dtrain::net {
namespace {

// What one batch takes of tensors: a chunk, or small ones until there is as much. Control that comes in meanwhile waits
// for no more than this.
constexpr size_t kTensorsPerBatch = 256u << 10;
constexpr size_t kPayloadsPerBatch = 24;
constexpr size_t kDescriptorsPerBatch = 16;
// What is lent at most: enough to keep the other side busy until its answer is here.
constexpr size_t kMostLent = 4u << 20;
// Smaller payloads are written: a copy costs less than a reference and its answer.
constexpr size_t kSmallestReference = 8u << 10;
// Of the buffer for control, what is kept between batches.
constexpr size_t kKept = 64u << 10;

// Blocks are numbered from the front of the network. What is no block comes last.
uint32_t priority(const wire::Message& message) {
  return std::visit(
      [](const auto& m) -> uint32_t {
        if constexpr (requires { m.block; })
          return m.block;
        else
          return UINT32_MAX;
      },
      message);
}

}  // namespace

// -- what is lent --

void Outgoing::Lent::push(std::shared_ptr<const void> owner, size_t bytes) {
  if (count_ == ring_.size()) {
    std::rotate(ring_.begin(), ring_.begin() + static_cast<ptrdiff_t>(first_), ring_.end());
    first_ = 0;
    ring_.resize(std::max<size_t>(16, 2 * ring_.size()));
  }
  ring_[(first_ + count_++) % ring_.size()] = {std::move(owner), bytes};
  bytes_ += bytes;
}

bool Outgoing::Lent::pop() {
  if (count_ == 0) return false;
  Loan loan = std::move(ring_[first_]);
  ring_[first_] = {};
  first_ = (first_ + 1) % ring_.size();
  --count_;
  bytes_ -= loan.bytes;
  return true;
}

void Outgoing::Lent::clear() {
  while (pop()) {
  }
}

// -- the queue --

void Outgoing::add(wire::Message message, wire::Payload payload) {
  if (payload.bytes.empty()) return wire::append_head(message, {}, control_);
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(tensors_.size()));
    tensors_.emplace_back();
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  turns_.push_back({priority(message), slot, numbers_++});
  std::push_heap(turns_.begin(), turns_.end());
  tensor_bytes_ += payload.bytes.size();
  tensors_[slot] = {std::move(message), std::move(payload)};
}

bool Outgoing::prepare() {
  DTRAIN_CHECK(pieces().empty());
  if (memory_ && memory_->retired() != retired_) forget_retired();
  pieces_.clear();
  ends_.clear();
  payloads_.clear();
  heads_.clear();
  piece_ = 0;
  if (heads_.capacity() > kKept) heads_ = {};

  size_t referred = 0, copied = 0;
  // Which tensors go first: finding out may announce regions, which is control.
  struct Chosen {
    uint32_t slot;
    std::optional<wire::MemoryReference> reference;
  };
  std::array<Chosen, kPayloadsPerBatch> chosen;
  size_t n = 0;
  while (!turns_.empty() && n < chosen.size() && copied < kTensorsPerBatch) {
    const uint32_t slot = turns_.front().slot;
    const ByteSpan payload = tensors_[slot].payload.bytes;
    const auto reference = refer(payload);
    if (reference && lent_.bytes() + referred + payload.size() > kMostLent && lent_.bytes() + referred > 0) break;
    (reference ? referred : copied) += payload.size();
    chosen[n++] = {slot, reference};
    std::pop_heap(turns_.begin(), turns_.end());
    turns_.pop_back();
  }
  std::swap(control_, heads_);
  for (size_t i = 0; i < n; ++i) {
    Tensor& tensor = tensors_[chosen[i].slot];
    const size_t bytes = tensor.payload.bytes.size();
    tensor_bytes_ -= bytes;
    if (chosen[i].reference) {
      wire::append_reference_head(tensor.message, *chosen[i].reference, heads_);
      lent_.push(std::move(tensor.payload.owner), bytes);
    } else {
      wire::append_head(tensor.message, tensor.payload.bytes, heads_);
      ends_.push_back(heads_.size());
      payloads_.push_back(std::move(tensor.payload));
    }
    tensor = {};
    free_.push_back(chosen[i].slot);
  }
  if (heads_.empty()) return false;

  batch_bytes_ = heads_.size();
  size_t begin = 0;
  auto piece = [this](const std::byte* data, size_t bytes) {
    if (bytes > 0) pieces_.push_back({const_cast<std::byte*>(data), bytes});
  };
  for (size_t i = 0; i < ends_.size(); ++i) {
    piece(heads_.data() + begin, ends_[i] - begin);
    piece(payloads_[i].bytes.data(), payloads_[i].bytes.size());
    batch_bytes_ += payloads_[i].bytes.size();
    begin = ends_[i];
  }
  piece(heads_.data() + begin, heads_.size() - begin);

  with_batch_.swap(announced_);
  for (const auto& region : with_batch_) descriptors_.push_back(region->fd);
  return true;
}

void Outgoing::written(size_t bytes) {
  if (bytes > 0) {
    descriptors_.clear();
    with_batch_.clear();
  }
  batch_bytes_ -= bytes;
  while (bytes > 0) {
    iovec& piece = pieces_[piece_];
    const size_t n = std::min(bytes, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + n;
    piece.iov_len -= n;
    bytes -= n;
    if (piece.iov_len == 0) ++piece_;
  }
  if (pieces().empty()) payloads_.clear();
}

void Outgoing::drop() {
  control_.clear();
  heads_.clear();
  ends_.clear();
  payloads_.clear();
  pieces_.clear();
  piece_ = batch_bytes_ = tensor_bytes_ = 0;
  turns_.clear();
  tensors_.clear();
  free_.clear();
  announced_.clear();
  with_batch_.clear();
  descriptors_.clear();
}

// -- shared memory --

// Where the other side finds this payload; nothing where it has to be written. Tells it of a region that is new to it.
std::optional<wire::MemoryReference> Outgoing::refer(ByteSpan payload) {
  if (!memory_ || payload.size() < kSmallestReference) return std::nullopt;
  const auto place = memory_->find(payload);
  if (!place || place->offset % wire::kReferenceAlignment != 0) return std::nullopt;
  const uint32_t id = place->region->id;
  const auto known =
      std::lower_bound(known_.begin(), known_.end(), id, [](const Known& k, uint32_t wanted) { return k.id < wanted; });
  if (known == known_.end() || known->id != id) {
    if (announced_.size() == kDescriptorsPerBatch) return std::nullopt;  // later
    known_.insert(known, {place->region, id});
    announced_.push_back(place->region);
    wire::append_head(wire::MemoryOffered{id, place->region->bytes}, {}, control_);
    return std::nullopt;
  }
  if (known->state != Known::State::kMapped) return std::nullopt;
  return wire::MemoryReference{id, place->offset, static_cast<uint32_t>(payload.size())};
}

void Outgoing::forget_retired() {
  retired_ = memory_->retired();
  std::erase_if(known_, [this](const Known& known) {
    if (!known.region.expired()) return false;
    wire::append_head(wire::MemoryGone{known.id}, {}, control_);
    return true;
  });
}

Status Outgoing::on(const wire::MemoryShared& m) {
  for (Known& known : known_) {
    if (known.id != m.region) continue;
    known.state = m.mapped ? Known::State::kMapped : Known::State::kRefused;
    return {};
  }
  // It may have gone back meanwhile.
  return {};
}

Status Outgoing::on(const wire::MemoryRead& m) {
  if (m.count > lent_.count())
    return fail(ExitCode::kPeerLost,
                fmt::format("it says that it has read {} tensors of {} that are lent to it", m.count, lent_.count()));
  for (uint32_t i = 0; i < m.count; ++i) lent_.pop();
  return {};
}

}  // namespace dtrain::net
