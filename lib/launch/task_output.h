// Where the lines of a run's tasks go: to the terminal, each with its task in front, and to one log file a task. A
// thread of its own writes to the terminal, which may stand still (Ctrl-S, a pager): whoever has lines never waits for
// it. What is too much for the queue is left out, and counted; logs have it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace dtrain::launch {

struct TaskOutputOptions {
  std::FILE* stream = nullptr;    // borrowed
  bool colour = false;            // of the labels, a colour a task
  std::vector<std::string> only;  // patterns as "worker/3", "ps/*", "worker"; none: all tasks
  std::string log_folder;         // for <job>-<index>.log; "": no logs
};

class TaskOutput {
 public:
  explicit TaskOutput(TaskOutputOptions options);
  // What waits is written first, where somebody reads it within a second. The stream stays open for as long as the
  // process where nobody does.
  ~TaskOutput();

  // Makes the folder and the logs of these tasks; what an earlier life left there is kept, and added to.
  Status open_logs(const std::vector<std::string>& tasks);

  // A line of a task, `rewrite`: the next one comes in its place. Lines that are rewritten are not logged.
  void line(const std::string& task, const std::string& text, bool rewrite);
  // A line of the launcher's own: always shown.
  void say(const std::string& text);
  // True when everything so far has been written.
  bool flush(std::chrono::milliseconds patience = std::chrono::seconds(1));
  const std::string& log_folder() const { return options_.log_folder; }

 private:
  bool shown(const std::string& task) const;
  void print(const std::string& label, const std::string& text, bool rewrite);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  TaskOutputOptions options_;
  std::map<std::string, std::unique_ptr<std::FILE, Close>> logs_;
  bool rewriting_ = false;  // the terminal's line holds a progress bar

  size_t left_out_ = 0;  // lines, since the last that fitted

  // What the two threads share; the writer may outlive this object.
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::string text;
    bool writing = false, ending = false;
  };
  static bool write_log(std::FILE& log, const std::string& text);
  static void write_queue(const std::shared_ptr<Queue>& queue, std::FILE* stream);
  std::shared_ptr<Queue> queue_;
  std::thread writer_;
};

// Whether "worker/3" is meant by a pattern: its name, its job ("worker"), or either with '*' for any characters.
bool is_meant(const std::string& pattern, const std::string& task);

}  // namespace dtrain::launch
