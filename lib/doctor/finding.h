// What `dtrain doctor` has to say about a machine, one finding a line. One thread; owns its texts.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace dtrain::doctor {

enum class Verdict {
  kOk,
  kNote,   // worth knowing
  kSlow,   // runs, but slower than it could
  kFails,  // a run cannot start, or will not come to its end
};

const char* to_string(Verdict verdict);  // "ok", "note", "slow", "fails"

struct Finding {
  std::string check;  // the name of the check that it is of
  Verdict verdict = Verdict::kOk;
  std::string says;
  std::string todo;  // what a person can do; "" where there is nothing to do
};

// Where a check writes what it finds.
class Findings {
 public:
  void begin(std::string check) { check_ = std::move(check); }
  void ok(std::string says) { add(Verdict::kOk, std::move(says), ""); }
  void note(std::string says, std::string todo = "") { add(Verdict::kNote, std::move(says), std::move(todo)); }
  void slow(std::string says, std::string todo) { add(Verdict::kSlow, std::move(says), std::move(todo)); }
  void fails(std::string says, std::string todo) { add(Verdict::kFails, std::move(says), std::move(todo)); }

  const std::vector<Finding>& all() const { return all_; }
  bool can_start() const;

 private:
  void add(Verdict verdict, std::string says, std::string todo) {
    all_.push_back({check_, verdict, std::move(says), std::move(todo)});
  }

  std::string check_;
  std::vector<Finding> all_;
};

}  // namespace dtrain::doctor
