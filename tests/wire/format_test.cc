// FORMAT.md says what the code does.
#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <sstream>

#include "proto-free-wire/codec.h"

namespace dtrain::wire {
namespace {

TEST(Format, HasARowWithEveryFieldOfEveryMessage) {
  std::ifstream file(DTRAIN_SOURCE_DIR "/proto-free-wire/FORMAT.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const MessageType type : message_types()) {
    const std::string start = "\n| " + std::to_string(static_cast<unsigned>(type)) + " | " + name_of(type) + " |";
    const size_t at = text.str().find(start);
    ASSERT_NE(at, std::string::npos) << "no row for " << name_of(type);
    const std::string row = text.str().substr(at, text.str().find('\n', at + 1) - at);

    const std::string printed = print(*make_default(type));
    const std::regex field("[{ ]([a-z0-9_]+)=");
    size_t from = start.size();
    for (std::sregex_iterator i(printed.begin(), printed.end(), field), end; i != end; ++i) {
      const size_t found = row.find(" " + (*i)[1].str() + " ", from);
      ASSERT_NE(found, std::string::npos) << (*i)[1] << " is missing or out of order: " << row;
      from = found + 1;
    }
    EXPECT_EQ(row.find("**payload**") != std::string::npos, takes_payload(type)) << row;
  }
}

}  // namespace
}  // namespace dtrain::wire
