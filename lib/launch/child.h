// One started process: its id, its output by lines, how it ended. It dies with its parent, however that dies.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace dtrain::launch {

struct ChildEnd {
  bool signalled = false;
  int value = 0;  // exit code or signal number

  bool good() const { return !signalled && value == 0; }
};
std::string to_string(const ChildEnd& end);  // "exit code 4", "killed by signal 9"

class Child {
 public:
  // Starts `argv` (argv[0] a path) with standard input from /dev/null, both outputs into one pipe, in a process group
  // of its own (so that a terminal's Ctrl-C reaches the launcher alone). `keep_fd`: one descriptor to inherit, or −1.
  // Sets SIGCHLD of this process to its default.
  static Result<Child> start(std::string label, const std::vector<std::string>& argv, int keep_fd);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();  // closes the pipe; does not kill

  const std::string& label() const { return label_; }  // "worker/0"
  pid_t pid() const { return pid_; }
  int output_fd() const { return output_; }  // −1 once it is at its end
  bool running() const { return running_; }
  const ChildEnd& end() const { return end_; }
  const std::deque<std::string>& last_lines() const { return last_lines_; }

  void signal(int number) const;
  // Reads what is there without blocking; calls line(text, rewrite) for each whole line, where `rewrite` says that the
  // next one comes in its place (it ended with a carriage return alone).
  using OnLine = std::function<void(const std::string& text, bool rewrite)>;
  void read_output(const OnLine& line);
  // Takes the exit status where the process has ended; true when it did just now.
  bool reap();

 private:
  Child(std::string label, pid_t pid, int output) : label_(std::move(label)), pid_(pid), output_(output) {}
  void add(char c, const OnLine& line);
  void end_line(const OnLine& line, bool rewrite);

  std::string label_;
  pid_t pid_;
  int output_;
  bool running_ = true;
  ChildEnd end_;
  std::string partial_;
  bool returned_ = false;  // the last character was a carriage return
  std::deque<std::string> last_lines_;
};

}  // namespace dtrain::launch
