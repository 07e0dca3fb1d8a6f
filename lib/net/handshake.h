// Whether two tasks belong to the same run.
#pragma once

#include <optional>
#include <string>

#include "net/endpoint.h"
#include "proto-free-wire/messages/hello.h"
#include "proto-free-wire/messages/refuse.h"

namespace dtrain::net {

// The first field in which the other side's Hello does not agree with ours, as the answer to it; nothing where all
// agree. Who they are (rank, wanted_rank, incarnation) is not compared. A data digest of zeros or an empty fingerprint
// means that the side has none, and agrees with all.
std::optional<wire::Refuse> first_difference(const wire::Hello& ours, const wire::Hello& theirs);

// What a peer says of itself, fit for a terminal: at most 100 characters, those that control one as '?'.
std::string printable(std::string text);

// What a person is told whose task was refused, or has refused the one that it dialled since that holds no secret, or
// another one (field "secret"): "/job:ps/task:0 (10.0.0.1:2500) refused this task: run_digest differs: 1234… there,
// 5678… here".
std::string explain(const wire::Refuse& refuse, const Endpoint& by);

}  // namespace dtrain::net
