// A transport with a loop of its own, as a task has it, and a log; both remember what happened as lines of text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/asio/asio_transport.h"
#include "tests/net/recording_handler.h"

namespace dtrain::net {

// Long enough for a machine under load; a test that passes never waits for it.
constexpr std::chrono::seconds kPatience{20};

// Thread-safe lines.
class Lines {
 public:
  void add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  // The first line that holds `text`; a test failure and "" where none comes.
  std::string await(const std::string& text) {
    std::unique_lock lock(mutex_);
    std::string found;
    const bool came = changed_.wait_for(lock, kPatience, [&] {
      const auto line = std::find_if(lines_.begin(), lines_.end(),
                                     [&](const std::string& l) { return l.find(text) != std::string::npos; });
      if (line != lines_.end()) found = *line;
      return line != lines_.end();
    });
    if (!came) {
      std::string all;
      for (const std::string& line : lines_) all += "\n  " + line;
      ADD_FAILURE() << "no line with '" << text << "' among:" << all;
    }
    return found;
  }
  size_t count(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(std::count_if(lines_.begin(), lines_.end(),
                                             [&](const std::string& l) { return l.find(text) != std::string::npos; }));
  }
  std::vector<std::string> all() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    lines_.clear();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

class LinesLog final : public Log {
 public:
  void write(LogLevel, std::string_view message) override { lines.add(std::string(message)); }
  Lines lines;
};

// The hooks of RecordingHandler run on the loop's thread; its lines go to `events`.
class Task final : public RecordingHandler {
 public:
  explicit Task(AsioConfig config, bool begin = true) {
    Result<std::unique_ptr<AsioTransport>> made = AsioTransport::create(std::move(config), log);
    if (!made) {
      ADD_FAILURE() << made.error().message;
      std::abort();
    }
    transport = std::move(*made);
    if (begin) this->begin();
  }
  ~Task() override { end(); }

  void begin() {
    transport->start(*this);
    loop_ = std::thread([this] { transport->run(); });
  }
  void end() {
    if (loop_.joinable()) {
      transport->stop();
      loop_.join();
    }
    transport.reset();
  }
  // Runs `function` on the loop and waits for it.
  void on_loop(std::function<void(Transport&)> function) {
    std::promise<void> done;
    transport->post([&] {
      function(*transport);
      done.set_value();
    });
    done.get_future().wait();
  }
  void send(Rank to, const wire::Message& message, const wire::Payload& payload = {}) {
    on_loop([&](Transport& t) { t.send(to, message, payload); });
  }

  void on_connected(Rank peer, uint64_t incarnation) override {
    RecordingHandler::on_connected(peer, incarnation);
    publish();
  }
  void on_message(Rank from, const wire::Message& message, ByteSpan payload) override {
    RecordingHandler::on_message(from, message, payload);
    publish();
  }
  void on_lost(Rank peer, const std::string& reason) override {
    RecordingHandler::on_lost(peer, reason);
    publish();
  }
  void on_refused(Rank by, const wire::Refuse& refuse) override {
    RecordingHandler::on_refused(by, refuse);
    publish();
  }
  void on_unreachable(Rank peer, const std::string& reason) override {
    RecordingHandler::on_unreachable(peer, reason);
    publish();
  }

  LinesLog log;
  Lines events;
  std::unique_ptr<AsioTransport> transport;

 private:
  void publish() {
    for (std::string& line : lines) events.add(std::move(line));
    lines.clear();
  }

  std::thread loop_;
};

// Rank 0 listens at a free port, with rank 1 (and more) allowed to come.
inline AsioConfig server_config(const std::string& host = "127.0.0.1", size_t ranks = 3) {
  AsioConfig config;
  config.self = 0;
  config.hello.program = "0.1.0";
  config.hello.incarnation = 100;
  for (size_t r = 0; r < ranks; ++r) {
    config.endpoints.push_back({r == 0 ? "/job:ps/task:0" : "/job:worker/task:" + std::to_string(r - 1), host, 0});
  }
  return config;
}

// Rank 1, which dials rank 0 at `port`.
inline AsioConfig worker_config(uint16_t port, const std::string& host = "127.0.0.1") {
  AsioConfig config = server_config(host);
  config.self = 1;
  config.hello.incarnation = 200;
  config.endpoints[0].port = port;
  config.dial = {0};
  return config;
}

}  // namespace dtrain::net
