#include "net/asio/connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <asio.hpp>
#include <deque>
#include <utility>
#include <vector>

#include "net/asio/socket_address.h"
#include "proto-free-wire/frame_reader.h"

namespace dtrain::net {
namespace {

// What one write takes of tensors: a chunk, or small ones until there is as much. Control that comes in meanwhile waits
// for no more than this.
constexpr size_t kTensorsPerWrite = 256u << 10;
constexpr size_t kPiecesPerWrite = 24;
// Of the buffer for control, what is kept between writes.
constexpr size_t kKeptControl = 64u << 10;

template <typename Buffer>
class BufferRange {
 public:
  using value_type = Buffer;
  using const_iterator = const Buffer*;

  BufferRange(const Buffer* data, size_t size) : data_(data), size_(size) {}
  const_iterator begin() const { return data_; }
  const_iterator end() const { return data_ + size_; }

 private:
  const Buffer* data_;
  size_t size_;
};

struct Tensor {
  wire::Message message;
  wire::Payload payload;
};

void prepare_socket(int fd) {
  const int yes = 1, buffer = 1 << 20;
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family == AF_UNIX) {
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
  } else {
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  }
}

class SocketConnection final : public Connection {
 public:
  SocketConnection(asio::io_context& loop, UniqueFd fd, size_t most_control, Owner& owner)
      : loop_(loop),
        socket_(loop),
        owner_(&owner),
        most_control_(most_control),
        peer_(peer_text(fd.get())),
        reader_(wire::kStrangerLimits) {
    prepare_socket(fd.get());
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    asio::error_code ec;
    socket_.assign(asio::generic::stream_protocol(address.ss_family, 0), fd.get(), ec);
    if (!ec) fd.release();  // otherwise the first read fails
  }

  void start() override { read(); }
  void trust() override { reader_.set_limits(wire::kPeerLimits); }

  void send(wire::Message message, wire::Payload payload) override {
    if (owner_ == nullptr || finishing_) return;
    if (payload.bytes.empty()) {
      wire::append_head(message, {}, control_);
      if (control_.size() > most_control_) {
        asio::post(loop_, [self = shared()] { self->fail("it does not read what it is sent"); });
      }
    } else {
      tensor_bytes_ += payload.bytes.size();
      tensors_.push_back({std::move(message), std::move(payload)});
    }
    write_soon();
  }

  void close() override {
    owner_ = nullptr;
    asio::error_code ignored;
    socket_.close(ignored);
    tensors_.clear();
    control_.clear();
    tensor_bytes_ = 0;
  }

  void finish() override {
    if (finishing_) return;
    finishing_ = true;
    write_soon();
  }

  size_t queued_bytes() const override { return control_.size() + tensor_bytes_ + writing_bytes_; }
  uint64_t bytes_read() const override { return bytes_read_; }
  uint64_t bytes_written() const override { return bytes_written_; }
  const std::string& peer() const override { return peer_; }

 private:
  std::shared_ptr<SocketConnection> shared() { return std::static_pointer_cast<SocketConnection>(shared_from_this()); }

  void fail(const std::string& reason) {
    Owner* owner = owner_;
    if (owner == nullptr) return;
    close();
    owner->on_closed(reason);
  }

  void read();
  void parse();
  void write_soon();
  void write();

  asio::io_context& loop_;
  asio::generic::stream_protocol::socket socket_;
  Owner* owner_;  // null: closed
  const size_t most_control_;
  const std::string peer_;
  bool finishing_ = false, foreign_ = false;

  wire::FrameReader reader_;
  std::array<asio::mutable_buffer, 2> spaces_;
  std::array<std::byte, 512> discarded_;
  uint64_t bytes_read_ = 0, bytes_written_ = 0;

  std::vector<std::byte> control_;  // encoded frames
  std::deque<Tensor> tensors_;
  size_t tensor_bytes_ = 0;  // of payloads in tensors_

  bool write_posted_ = false, writing_ = false, shut_down_ = false;
  std::vector<std::byte> writing_heads_;
  std::vector<Tensor> writing_tensors_;
  std::vector<asio::const_buffer> pieces_;
  size_t writing_bytes_ = 0;
};

void SocketConnection::read() {
  if (foreign_ || finishing_) {  // only the end of the stream is of interest
    spaces_ = {asio::buffer(discarded_), asio::mutable_buffer()};
  } else {
    const std::array<MutableByteSpan, 2> spaces = reader_.space();
    for (size_t i = 0; i < spaces.size(); ++i) spaces_[i] = {spaces[i].data(), spaces[i].size()};
  }
  const bool discard = foreign_ || finishing_;
  socket_.async_read_some(
      BufferRange<asio::mutable_buffer>(spaces_.data(), spaces_[1].size() > 0 ? 2 : 1),
      [self = shared(), discard](const asio::error_code& ec, size_t n) {
        if (self->owner_ == nullptr) return;
        if (ec == asio::error::eof) {
          const bool inside = !discard && self->reader_.inside_frame();
          return self->fail(inside ? "it closed the connection in the middle of a frame" : "it closed the connection");
        }
        if (ec) return self->fail(ec.message());
        self->bytes_read_ += n;
        if (!discard) {
          self->reader_.filled(n);
          self->parse();
        }
        if (self->owner_ != nullptr) self->read();
      });
}

void SocketConnection::parse() {
  while (owner_ != nullptr && !finishing_) {
    Result<std::optional<wire::Frame>> frame = reader_.next();
    if (!frame && reader_.foreign_version()) {
      foreign_ = true;
      return owner_->on_foreign_version(*reader_.foreign_version());
    }
    if (!frame) return fail(frame.error().message);
    if (!*frame) return;
    owner_->on_frame((*frame)->message, (*frame)->payload);
  }
}

// Not at once: what else is sent in the same turn of the loop goes into the same write.
void SocketConnection::write_soon() {
  if (write_posted_ || writing_ || owner_ == nullptr) return;
  write_posted_ = true;
  asio::post(loop_, [self = shared()] {
    self->write_posted_ = false;
    self->write();
  });
}

void SocketConnection::write() {
  if (writing_ || owner_ == nullptr) return;
  if (control_.empty() && tensors_.empty()) {
    if (finishing_ && !std::exchange(shut_down_, true)) {
      asio::error_code ignored;
      socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    }
    return;
  }
  writing_ = true;
  std::swap(control_, writing_heads_);
  std::vector<size_t> ends;  // of the heads, each followed by its payload
  size_t payloads = 0;
  while (!tensors_.empty() && payloads < kTensorsPerWrite && ends.size() < kPiecesPerWrite) {
    writing_tensors_.push_back(std::move(tensors_.front()));
    tensors_.pop_front();
    const Tensor& tensor = writing_tensors_.back();
    wire::append_head(tensor.message, tensor.payload.bytes, writing_heads_);
    ends.push_back(writing_heads_.size());
    payloads += tensor.payload.bytes.size();
  }
  tensor_bytes_ -= payloads;
  writing_bytes_ = writing_heads_.size() + payloads;
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    const ByteSpan payload = writing_tensors_[i].payload.bytes;
    pieces_.emplace_back(writing_heads_.data() + begin, ends[i] - begin);
    pieces_.emplace_back(payload.data(), payload.size());
    begin = ends[i];
  }
  if (begin < writing_heads_.size()) pieces_.emplace_back(writing_heads_.data() + begin, writing_heads_.size() - begin);

  // Asio's own condition would cut every write to 64 KiB.
  const auto all = [self = this](const asio::error_code& ec, size_t) -> size_t {
    return ec || self->owner_ == nullptr ? 0 : size_t{4} << 20;
  };
  asio::async_write(socket_, BufferRange<asio::const_buffer>(pieces_.data(), pieces_.size()), all,
                    [self = shared()](const asio::error_code& ec, size_t n) {
                      self->writing_ = false;
                      self->bytes_written_ += n;
                      self->writing_bytes_ = 0;
                      self->pieces_.clear();
                      self->writing_tensors_.clear();
                      self->writing_heads_.clear();
                      if (self->writing_heads_.capacity() > kKeptControl) self->writing_heads_.shrink_to_fit();
                      if (ec) return self->fail(ec.message());
                      self->write();
                    });
}

}  // namespace

std::shared_ptr<Connection> Connection::make(asio::io_context& loop, UniqueFd socket, size_t most_control,
                                             Owner& owner) {
  return std::make_shared<SocketConnection>(loop, std::move(socket), most_control, owner);
}

}  // namespace dtrain::net
