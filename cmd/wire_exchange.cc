#include "wire_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace dtrain::cmd {
namespace {

constexpr Nanoseconds kPatience = 60 * kSecond;
constexpr float kOwn = 1.0f, kPushed = 2.0f, kValue = 0.5f, kRate = 0.25f;

net::AsioConfig config(wire::Rank self) {
  net::AsioConfig c;
  c.self = self;
  c.endpoints = {{"server", "127.0.0.1", 0}, {"worker", "127.0.0.1", 0}};
  c.hello.program = DTRAIN_VERSION;
  c.hello.incarnation = self + 1;
  // Loops stand still between measurements.
  c.timeouts.heartbeat = c.timeouts.peer = 3600 * kSecond;
  return c;
}

double seconds(Instant from, Instant to) { return static_cast<double>(to - from) / kSecond; }

}  // namespace

ps::BlockTable wire_table(size_t bytes, size_t count) {
  std::vector<ParameterInfo> parameters;
  for (size_t i = 0; i < count; ++i)
    parameters.push_back({fmt::format("tensor{}", i), Shape{static_cast<int64_t>(bytes / sizeof(float))}});
  return {parameters, 1};
}

// -- both sides --

Status WireEnd::make(net::AsioConfig config) {
  DTRAIN_TRY_ASSIGN(transport_, net::AsioTransport::create(std::move(config), log_));
  transport_->start(*this);
  return {};
}

Status WireEnd::run(bool& over) {
  transport_->after(kPatience, [this, run = ++runs_, &over] {
    if (run != runs_ || over) return;
    lost_ = "nothing came for a minute";
    transport_->stop();
  });
  while (!over && lost_.empty()) transport_->run();
  ++runs_;
  if (!lost_.empty()) return fail(ExitCode::kPeerLost, "the benchmark's connection: " + lost_);
  return {};
}

void WireEnd::say_over() {
  transport_->send(1 - transport_->self(), wire::Ready{});
  end_when_written(over_);
}

void WireEnd::end_when_written(bool& over) {
  transport_->post([this, &over] {
    if (transport_->queued_bytes(1 - transport_->self()) > 0) return end_when_written(over);
    over = true;
    transport_->stop();
  });
}

// The answer to the other side's Hello may still have to be written.
void WireEnd::on_connected(net::Rank, uint64_t) { end_when_written(connected_); }

void WireEnd::on_lost(net::Rank, const std::string& reason) {
  lost_ = reason;
  transport_->stop();
}
void WireEnd::on_refused(net::Rank, const wire::Refuse& refuse) {
  lost_ = "refused: " + refuse.field;
  transport_->stop();
}
void WireEnd::on_unreachable(net::Rank, const std::string& reason) {
  lost_ = reason;
  transport_->stop();
}

// -- the server --

Status WireServer::connect(PeerChannel& child, DtrainLink link) {
  child_ = &child;
  link_ = link;
  net::AsioConfig c = config(0);
  if (link == kHost) c.memory = memory_;
  DTRAIN_TRY(make(std::move(c)));
  DTRAIN_TRY(child.send({.act = Act::kDial, .link = link, .count = port()}));
  DTRAIN_TRY(run(connected_));
  DTRAIN_TRY(child.await_done());
  return {};
}

void WireServer::serve(const ps::BlockTable& table, const optim::Optimizer& optimizer) {
  server_.reset();
  table_ = &table;
  optimizer_ = &optimizer;
  ps::ShardServerOptions options;
  options.micro_batches = kMicroBatches;
  options.memory = memory_;
  options.pool_bytes = 2 * static_cast<size_t>(table.server_elements(0)) * sizeof(float);
  server_ = std::make_unique<ps::ShardServer>(table, 0, options, optimizer, *this, *this);
  ones_ = Buffer(ps::kChunkElements * sizeof(float));
  std::fill_n(ones_.as<float>().data(), ps::kChunkElements, kOwn);
  std::vector<float> values(static_cast<size_t>(ps::kChunkElements * ps::kBlockChunks), kValue);
  for (uint32_t b = 0; b < table.blocks().size(); ++b)
    server_->load(b, std::span(values).first(static_cast<size_t>(table.block(b).elements)));
}

// What the server says to itself is for a worker of this process, which is not here.
void WireServer::send(wire::Rank to, wire::Message message, wire::Payload payload) {
  if (to != transport_->self()) transport_->send(to, std::move(message), std::move(payload));
}

void WireServer::on_message(net::Rank from, const wire::Message& message, ByteSpan payload) {
  if (std::holds_alternative<wire::Ready>(message)) {
    over_ = true;
    return transport_->stop();
  }
  if (std::holds_alternative<wire::NormFactor>(message)) {
    bounced_.push_back(SteadyClock().now());
    if (bounced_.size() > bounces_) return say_over();
    return transport_->send(from, message);
  }
  const Status taken = server_->on_message(from, message, payload);
  if (!taken && status_) status_ = taken;
  if (std::holds_alternative<wire::NodeChunk>(message) && --expected_ == 0) end_ = SteadyClock().now();
}

// A node of gradients that are all kOwn times its size.
Status WireServer::add_own(const ps::Node& node) {
  Buffer scaled(ones_.size());
  std::fill_n(scaled.as<float>().data(), ps::kChunkElements, kOwn * static_cast<float>(node.size()));
  for (uint32_t b = 0; b < table_->blocks().size(); ++b) {
    const ps::Block& block = table_->block(b);
    DTRAIN_TRY(server_->on_message(0, wire::Offer{0, b, node.first, node.last}));
    for (uint32_t c = 0; c < block.chunks(); ++c)
      DTRAIN_TRY(server_->on_message(0, wire::NodeChunk{0, b, node.first, node.last, c},
                                     {scaled.data(), static_cast<size_t>(block.chunk_elements(c)) * sizeof(float)}));
  }
  return {};
}

Result<double> WireServer::push() {
  server_->start(0);
  DTRAIN_TRY(server_->on_message(0, wire::Rates{0, {kRate}}));
  DTRAIN_TRY(add_own({0, 1}));
  expected_ = 0;
  for (const ps::Block& block : table_->blocks()) expected_ += block.chunks();
  over_ = false;
  const Instant begin = SteadyClock().now();
  DTRAIN_TRY(child_->send({.act = Act::kPush, .link = link_}));
  DTRAIN_TRY(run(over_));
  DTRAIN_TRY(status_);
  DTRAIN_TRY(child_->await_done());
  return seconds(begin, end_);
}

Result<double> WireServer::pull() {
  server_->start(0);
  over_ = false;
  const Instant begin = SteadyClock().now();
  DTRAIN_TRY(child_->send({.act = Act::kPull, .link = link_}));
  DTRAIN_TRY(run(over_));
  const double time = seconds(begin, SteadyClock().now());
  DTRAIN_TRY(status_);
  DTRAIN_TRY(child_->await_done());
  return time;
}

Result<std::vector<double>> WireServer::bounce(size_t count) {
  over_ = false;
  bounces_ = count;
  bounced_ = {SteadyClock().now()};
  DTRAIN_TRY(child_->send({.act = Act::kBounce, .link = link_}));
  transport_->send(1, wire::NormFactor{.step = 1, .ratios = {1.0, 1.0}});
  DTRAIN_TRY(run(over_));
  DTRAIN_TRY(child_->await_done());
  std::vector<double> times;
  for (size_t i = 1; i < bounced_.size(); ++i) times.push_back(seconds(bounced_[i - 1], bounced_[i]));
  return times;
}

Status WireServer::check() {
  DTRAIN_TRY(push());
  DTRAIN_TRY(add_own({2, 4}));
  const float expected = kValue - kRate * (kOwn + kPushed + 2 * kOwn) / kMicroBatches;
  for (uint32_t b = 0; b < table_->blocks().size(); ++b)
    for (const float value : server_->values(b))
      if (value != expected)
        return fail(ExitCode::kBug, fmt::format("block {} has the value {} after a step, not {}", b, value, expected));
  serve(*table_, *optimizer_);
  return {};
}

// -- the worker --

Status WireWorker::connect(uint16_t port, DtrainLink link, std::shared_ptr<SharedMemory> memory) {
  net::AsioConfig c = config(1);
  c.endpoints[0].port = port;
  c.dial = {0};
  c.host_sockets = link != kTcp;
  if (link == kHost) c.memory = std::move(memory);
  DTRAIN_TRY(make(std::move(c)));
  return run(connected_);
}

void WireWorker::work(const ps::BlockTable& table, float* values, const float* gradients) {
  table_ = &table;
  values_ = values;
  gradients_ = gradients;
  first_.clear();
  size_t at = 0;
  for (const ps::Block& block : table.blocks()) {
    first_.push_back(at);
    at += static_cast<size_t>(block.elements);
  }
}

void WireWorker::on_message(net::Rank from, const wire::Message& message, ByteSpan payload) {
  if (const auto* take = std::get_if<wire::Take>(&message)) {
    send_chunks(*take);
  } else if (std::holds_alternative<wire::Absorbed>(message)) {
    if (--left_ == 0) say_over();
  } else if (const auto* chunk = std::get_if<wire::ParameterChunk>(&message)) {
    std::memcpy(values_ + first_[chunk->block] + chunk->chunk * ps::kChunkElements, payload.data(), payload.size());
    if (--left_ == 0) say_over();
  } else if (std::holds_alternative<wire::NormFactor>(message)) {
    transport_->send(from, message);
  } else if (std::holds_alternative<wire::Ready>(message)) {
    over_ = true;
    transport_->stop();
  }
}

void WireWorker::send_chunks(const wire::Take& take) {
  const ps::Block& block = table_->block(take.block);
  for (uint32_t c = 0; c < block.chunks(); ++c) {
    if (!(take.chunks >> c & 1)) continue;
    const float* at = gradients_ + first_[take.block] + c * ps::kChunkElements;
    transport_->send(0, wire::NodeChunk{take.step, take.block, take.first, take.last, c},
                     {std::as_bytes(std::span(at, static_cast<size_t>(block.chunk_elements(c)))), nullptr});
  }
}

// As a worker does: small blocks at once, others when they are asked for.
Status WireWorker::push() {
  over_ = false;
  left_ = table_->blocks().size();
  for (uint32_t b = 0; b < table_->blocks().size(); ++b) {
    if (table_->block(b).pushed())
      send_chunks({0, b, 1, 2, 1});
    else
      transport_->send(0, wire::Offer{0, b, 1, 2});
  }
  return run(over_);
}

Status WireWorker::pull() {
  over_ = false;
  left_ = 0;
  for (uint32_t b = 0; b < table_->blocks().size(); ++b) {
    left_ += table_->block(b).chunks();
    transport_->send(0, wire::Pull{b, 0});
  }
  return run(over_);
}

Status WireWorker::bounce() {
  over_ = false;
  return run(over_);
}

Status WireExchangeChild::obey(PeerChannel& parent, const Order& order) {
  WireWorker* worker = order.link < kDtrainLinks ? workers_[order.link].get() : nullptr;
  switch (order.act) {
    case Act::kDial:
      workers_[order.link] = std::make_unique<WireWorker>();
      DTRAIN_TRY(workers_[order.link]->connect(static_cast<uint16_t>(order.count), static_cast<DtrainLink>(order.link),
                                               memory_));
      break;
    case Act::kTable: {
      table_ = std::make_unique<ps::BlockTable>(wire_table(order.bytes, order.count));
      const auto elements = static_cast<size_t>(table_->server_elements(0));
      values_ = Buffer(elements * sizeof(float));
      gradients_ = Buffer(elements * sizeof(float), memory_);
      values_.zero();
      std::fill_n(gradients_.as<float>().data(), elements, kPushed);
      for (const auto& each : workers_)
        each->work(*table_, values_.as<float>().data(), gradients_.as<const float>().data());
      break;
    }
    case Act::kPush:
      DTRAIN_TRY(worker->push());
      break;
    case Act::kPull:
      DTRAIN_TRY(worker->pull());
      break;
    case Act::kBounce:
      DTRAIN_TRY(worker->bounce());
      break;
    default:
      return fail(ExitCode::kBug, "an order that is not about dtrain's links");
  }
  return parent.send({});
}

}  // namespace dtrain::cmd
