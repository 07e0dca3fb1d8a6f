// One started process: its id, its output by lines, whether it is ready, how it ended. It dies with its parent, however
// that dies.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "launch/task_end.h"

namespace dtrain::launch {

struct ChildStart {
  std::string label;                          // for messages: "worker/0"
  std::vector<std::string> argv;              // argv[0] a path, or a name to be found in the PATH
  std::vector<int> keep_fds = {};             // descriptors to inherit
  std::vector<std::string> environment = {};  // NAME=VALUE, in the place of or beside what is there
  // Standard input: this text and its end, or this descriptor (borrowed); neither: /dev/null.
  std::optional<std::string> input = std::nullopt;
  int input_fd = -1;
  int output_fd = -1;  // standard output (borrowed); else it is read by lines, with standard error
  // Standard input and output are pipes of the parent's (channel_in, channel_out), instead of all these, and only
  // standard error is read by lines.
  bool channel = false;
  // It is given a NOTIFY_SOCKET, as systemd's services are: what it says there is what ready() tells.
  bool notify = false;
};

class Child {
 public:
  // Starts it in a process group of its own (so that a terminal's Ctrl-C reaches the launcher alone). Sets SIGCHLD of
  // this process to its default.
  static Result<Child> start(const ChildStart& start);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();  // closes the pipes; does not kill

  const std::string& label() const { return label_; }
  pid_t pid() const { return pid_; }
  int output_fd() const { return output_; }         // −1 once it is at its end
  int channel_in() const { return channel_in_; }    // to write to; does not block; −1 where there is none
  int channel_out() const { return channel_out_; }  // to read from; does not block
  int notify_fd() const { return notify_; }         // readable when it has said something there; −1: it cannot
  void close_channel_in();
  bool running() const { return running_; }
  const TaskEnd& end() const { return end_; }

  void signal(int number) const;
  void signal_group(int number) const;  // and whatever it has started, where that is in its process group
  // Reads what is there without blocking; calls line(text, rewrite) for each whole line, where `rewrite` says that the
  // next one comes in its place (it ended with a carriage return alone).
  using OnLine = std::function<void(const std::string& text, bool rewrite)>;
  void read_output(const OnLine& line);
  // True when it has said READY=1, once.
  bool became_ready();
  // Takes the exit status where the process has ended; true when it did just now.
  bool reap();

 private:
  explicit Child(std::string label) : label_(std::move(label)) {}
  void add(char c, const OnLine& line);
  void end_line(const OnLine& line, bool rewrite);

  std::string label_;
  pid_t pid_ = -1;
  int output_ = -1, channel_in_ = -1, channel_out_ = -1, notify_ = -1;
  bool running_ = true;
  bool ready_ = false;
  TaskEnd end_;
  std::string partial_;
  bool returned_ = false;  // the last character was a carriage return
};

}  // namespace dtrain::launch
